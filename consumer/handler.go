package consumer

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/consumer/internal/once"
	"github.com/delaybridge/delaybridge/message"
)

// Handler handles messages. What it returns decides over the message:
//
//   - nil acknowledges it;
//   - [Reject] quarantines it at once;
//   - [RetryAfter], or any other error, has it handled again after a pause, and
//     quarantined after the last attempt that Config.Retry allows;
//   - [RetryForever] has it handled again after a pause, however often it was;
//   - a panic is an error, a *[PanicError].
//
// The message's Journey says how often it was handled before, and what came of it.
// A message may come more than once, even after a nil. The handler must not
// change the message's body or headers. ctx ends when shutting down takes
// longer than Config.DrainTimeout.
type Handler interface {
	Handle(ctx context.Context, m message.Message) error
}

// HandlerFunc is a function as a [Handler].
type HandlerFunc func(ctx context.Context, m message.Message) error

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, m message.Message) error { return f(ctx, m) }

// Reject returns an error by which a handler says that no retry will help: the
// message is quarantined at once, with err's text beside it.
func Reject(err error) error { return &rejection{orNoReason(err)} }

// RetryAfter returns an error by which a handler says how long to wait before
// the next attempt, instead of the pause that Config.Retry would make. It counts as
// an attempt. Without a Config.Delayer see there for how long that may be; with one,
// message.MaxDelay is the most.
func RetryAfter(d time.Duration, err error) error { return &postponement{orNoReason(err), d} }

// RetryForever returns an error by which a handler says that it is not the message that is at
// fault, such as when a service it needs is down: the message is handled again after the pause
// that Config.Retry makes, and not quarantined for the number of its attempts. Without a
// Config.Delayer it is quarantined when it was held for as long as it may.
func RetryForever(err error) error { return &patience{orNoReason(err)} }

type patience struct{ error }

func (p *patience) Unwrap() error { return p.error }

type rejection struct{ error }

func (r *rejection) Unwrap() error { return r.error }

type postponement struct {
	error
	pause time.Duration
}

func (p *postponement) Unwrap() error { return p.error }

func orNoReason(err error) error {
	if err == nil {
		return errors.New("the handler gave no reason")
	}
	return err
}

// PanicError is what a handler's panic becomes.
type PanicError struct {
	Value any    // what the handler panicked with
	Stack []byte // of the goroutine that panicked
}

// Error returns the value.
func (p *PanicError) Error() string { return fmt.Sprintf("the handler panicked: %v", p.Value) }

// Unwrap returns the value where it is an error.
func (p *PanicError) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// call calls h and turns a panic into an error.
func call(ctx context.Context, h Handler, m message.Message) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return h.Handle(ctx, m)
}

// handleOnce returns a handler that calls h unless a message with the same ID from the same
// queue has been handled with success.
func handleOnce(l *once.Ledger, h Handler) Handler {
	return HandlerFunc(func(ctx context.Context, m message.Message) error {
		err := l.Do(ctx, m.ID, func(ctx context.Context) error { return h.Handle(ctx, m) })
		if errors.Is(err, once.ErrNoID) {
			return Reject(err)
		}
		return err
	})
}

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
