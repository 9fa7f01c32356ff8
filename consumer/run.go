package consumer

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/delaybridge/delaybridge/consumer/internal/unsettled"
	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/sleep"
)

const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = time.Second
	// steady is how long a session lasts that did not end over the messages it
	// began with.
	steady = 10 * time.Second
	// drainGrace is what handlers get to return after their context has ended.
	drainGrace = time.Second
)

// Run consumes until ctx ends, reconnecting as often as it takes. Then it takes
// no more messages, waits for the handlers at work, gives back what they have
// not begun, and returns nil, or ErrNotDrained.
//
// It returns another error of this package where it cannot even begin, and only a person
// can help. Once it has consumed ([Consumer.Ready]), it waits for what is missing or
// forbidden, says so in the log, and goes on when it can. It may be called once.
func (c *Consumer) Run(ctx context.Context) error {
	intake, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(intake, c.intake.stop)()
	// Handlers, and the connections on which they are settled, outlive ctx.
	work, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	connected, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()

	var connections sync.WaitGroup
	for _, conn := range []*broker.Conn{c.consuming, c.publishing} {
		connections.Go(func() {
			if err := conn.Run(connected); err != nil {
				stop(err)
			}
		})
	}
	r := &run{
		Consumer: c, stop: stop, work: work, cut: cut,
		slots:     make(chan struct{}, c.config.Concurrency),
		publisher: broker.NewPublisher(c.publishing),
	}
	r.drain = sync.OnceValue(r.awaitHandlers)
	r.background.Go(func() { r.queue.Keep(intake, r.ready) })
	r.consume(intake)
	err := r.drain()
	hangUp() // which ends a call in the background that gets no answer
	connections.Wait()
	r.background.Wait()
	if cause := context.Cause(intake); cause != context.Cause(ctx) { //nolint:errorlint // the same or not
		return cause
	}
	return err
}

// run is the state of one call of Run.
type run struct {
	*Consumer
	stop      context.CancelCauseFunc // ends the intake with a permanent fault
	work      context.Context         // of the handlers
	cut       context.CancelFunc      // ends work
	drain     func() error            // awaitHandlers, once
	slots     chan struct{}           // one for each handler at work
	handlers  sync.WaitGroup          // messages being handled, settled or waiting for a retry
	order     unsettled.Order         // of the deliveries that have a key and are not settled
	publisher *broker.Publisher       // to quarantine
	// background is what keeps the queue and gives back deliveries; the end of the
	// connection ends it.
	background sync.WaitGroup
}

// consume holds one session after the other until ctx ends.
func (r *run) consume(ctx context.Context) {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = minBackoff, maxBackoff
	probation, said := false, ""
	for ctx.Err() == nil {
		began := time.Now()
		err := r.session(ctx, probation)
		r.intake.set(false, err)
		if ctx.Err() != nil {
			return
		}
		if r.ends(err) {
			r.stop(err)
			return
		}
		if probation = time.Since(began) < steady; !probation {
			wait.Reset()
			said = ""
		}
		pause := wait.NextBackOff()
		if reason := err.Error(); reason != said { // an outage of hours is one line
			said = reason
			r.log.Warn("consuming was interrupted; it is tried again until it works", "error", err, "retry_in", pause)
		}
		sleep.For(ctx, pause)
	}
}

// awaitHandlers waits for the handlers at work, and where that takes too long
// ends their context.
func (r *run) awaitHandlers() error {
	done := make(chan struct{})
	go func() {
		r.handlers.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-time.After(r.config.DrainTimeout):
	}
	r.log.Warn("the drain timeout is over; ending the handlers' context", "drain_timeout", r.config.DrainTimeout)
	r.cut()
	select {
	case <-done:
		return nil
	case <-time.After(drainGrace):
		return fmt.Errorf("consumer of %q: %d %w", r.config.Queue, len(r.slots), ErrNotDrained)
	}
}
