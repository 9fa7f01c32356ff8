package consumer

import (
	"context"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/message"
)

// chain returns h inside of all the others, of which the first is called first.
func chain(h Handler, middleware ...func(Handler) Handler) Handler {
	for _, wrap := range slices.Backward(middleware) {
		h = wrap(h)
	}
	return h
}

// Timeout is for Config.Middleware: it ends the context of each attempt after d, so that a handler which waits for
// something that never comes makes room for others. It has to heed its context.
func Timeout(d time.Duration) func(Handler) Handler {
	return func(next Handler) Handler {
		return HandlerFunc(func(ctx context.Context, m message.Message) error {
			ctx, cancel := context.WithTimeout(ctx, d)
			defer cancel()
			return next.Handle(ctx, m)
		})
	}
}
