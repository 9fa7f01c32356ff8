package producer

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
)

// runGrace is how long Publish waits for a call of Run.
const runGrace = 2 * time.Second

// request is one message on its way through a worker. It is used again and
// again, for the same route.
type request struct {
	ctx     context.Context //nolint:containedctx // handed from goroutine to goroutine with the message
	route   *route
	target  broker.Target
	headers amqp.Table // of out
	out     broker.Outgoing
	answer  chan error  // takes one answer
	done    func(error) // gives it
}

func (route *route) request() *request {
	if used, ok := route.requests.Get().(*request); ok {
		return used
	}
	r := &request{route: route, headers: amqp.Table{}, answer: make(chan error, 1)}
	r.done = func(err error) {
		// The broker closes a channel that publishes to an exchange that was deleted.
		if errors.Is(err, ErrMissing) {
			r.route.known.Store(false)
		}
		route.unanswered.Answered(r.target)
		r.answer <- err
	}
	return r
}

// release lets r be used again. The caller must hold the last reference.
func (r *request) release() {
	r.ctx, r.out = nil, broker.Outgoing{}
	r.route.requests.Put(r)
}

// deliver hands r to a worker and waits for the broker's answer, for no longer
// than ctx allows, even when a worker hangs in a write.
func (p *Producer) deliver(ctx context.Context, r *request) error {
	if err := p.awaitConnection(ctx); err != nil {
		r.release()
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	if err := p.admit(ctx, r); err != nil {
		r.release()
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	r.ctx = ctx
	select {
	case p.queue <- r:
	case <-p.stopped:
		r.route.unanswered.Answered(r.target)
		return fmt.Errorf("%w: %w", ErrNotSent, errStopped)
	case <-ctx.Done():
		r.route.unanswered.Answered(r.target)
		return fmt.Errorf("%w: the connection is too slow, or silent: %w", ErrNotSent, ctx.Err())
	}
	select {
	case err := <-r.answer:
		r.release()
		return err
	case <-ctx.Done():
		// The answer, if it comes, releases the request.
		if blocked := p.conn.Blocked(); blocked != nil {
			return fmt.Errorf("%w: no answer yet: %w: %w", ErrUnconfirmed, blocked, ctx.Err())
		}
		return fmt.Errorf("%w: no answer yet: %w", ErrUnconfirmed, ctx.Err())
	}
}

// awaitConnection waits for one, but not beyond the end of Run.
func (p *Producer) awaitConnection(ctx context.Context) error {
	if p.conn.IsReady() {
		return nil
	}
	if err := p.awaitRun(ctx); err != nil {
		return err
	}
	waiting, done := p.untilShut(ctx)
	defer done()
	return p.conn.Ready(waiting)
}

// untilShut returns a context that also ends when no more messages are let in.
func (p *Producer) untilShut(ctx context.Context) (waiting context.Context, done func()) {
	waiting, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(p.gate.open, func() { cancel(context.Cause(p.gate.open)) })
	return waiting, func() { stop(); cancel(nil) }
}

// admit waits until r's target answers for what was sent there.
func (p *Producer) admit(ctx context.Context, r *request) error {
	var most int
	r.target, most = r.route.target(r.out.RoutingKey)
	if r.route.unanswered.TryAdmit(r.target, most) {
		return nil
	}
	waiting, done := p.untilShut(ctx)
	defer done()
	return r.route.unanswered.Admit(waiting, r.target, most)
}

// awaitRun returns errNotRunning where Run was not called. It allows for a goroutine that
// is about to call it.
func (p *Producer) awaitRun(ctx context.Context) error {
	select {
	case <-p.running:
		return nil
	case <-ctx.Done():
	case <-time.After(runGrace):
	}
	select {
	case <-p.running:
		return nil
	default:
		return errNotRunning
	}
}

// work publishes until the producer has stopped. What it has
// taken gets an answer: from the publisher, or, at the latest, at the end of the
// connection.
func (p *Producer) work(pool *broker.Pool) {
	for {
		select {
		case <-p.stopped:
			return
		case r := <-p.queue:
			err := p.look(r.ctx, r.route)
			if err == nil {
				err = pool.Publish(r.ctx, r.target, r.out, r.done)
			}
			if err != nil {
				r.done(err)
			}
		}
	}
}

// look makes sure that an exchange is there before the first message goes to
// it. Publishing to one that is missing would close the channel, and leave all
// messages on it unconfirmed.
func (p *Producer) look(ctx context.Context, r *route) error {
	if r.known.Load() {
		return nil
	}
	ch, err := p.conn.Channel(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	// Of a passive declaration the broker looks at the name alone.
	if err := ch.ExchangeDeclarePassive(r.exchange, amqp.ExchangeFanout, true, false, false, false, nil); err != nil {
		return fmt.Errorf("%w: exchange %s: %w", ErrNotSent, r.exchange, broker.Classify(err))
	}
	r.known.Store(true)
	_ = ch.Close()
	return nil
}
