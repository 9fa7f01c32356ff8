package consumer_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/message"
)

func TestTheFirstMiddlewareIsCalledFirst(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	var calls []string
	say := func(what string) func(consumer.Handler) consumer.Handler {
		return func(next consumer.Handler) consumer.Handler {
			return consumer.HandlerFunc(func(ctx context.Context, m message.Message) error {
				calls = append(calls, what)
				defer func() { calls = append(calls, "after "+what) }()
				return next.Handle(ctx, m)
			})
		}
	}
	c := b.config(func(context.Context, message.Message) error {
		calls = append(calls, "handler")
		return nil
	})
	c.Middleware = []func(consumer.Handler) consumer.Handler{say("one"), say("two")}
	b.bind()
	r := start(t, c)
	b.publish(numbered(1)...)
	r.observe(1)
	if want := []string{"one", "two", "handler", "after two", "after one"}; !slices.Equal(calls, want) {
		t.Errorf("called %v, want %v", calls, want)
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		waits := consumer.HandlerFunc(func(ctx context.Context, _ message.Message) error {
			<-ctx.Done()
			return ctx.Err()
		})
		began := time.Now()
		err := consumer.Timeout(time.Minute)(waits).Handle(t.Context(), message.Message{})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}
