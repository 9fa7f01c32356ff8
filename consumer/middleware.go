package consumer

import (
	"context"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/message"
)

// Middleware makes a handler of another one, to do something before or after it, or
// instead.
type Middleware = func(Handler) Handler

// chain returns h inside of all the others, of which the first is called first.
func chain(h Handler, middleware ...Middleware) Handler {
	for _, wrap := range slices.Backward(middleware) {
		h = wrap(h)
	}
	return h
}

// Timeout ends the context of each attempt after d, so that a handler which waits for
// something that never comes makes room for others. It has to heed its context.
func Timeout(d time.Duration) Middleware {
	return func(next Handler) Handler {
		return HandlerFunc(func(ctx context.Context, m message.Message) error {
			ctx, cancel := context.WithTimeout(ctx, d)
			defer cancel()
			return next.Handle(ctx, m)
		})
	}
}
