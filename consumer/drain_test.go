package consumer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/message"
)

func TestDrainFinishesWorkInHandAndReturnsTheRest(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.bind()
	b.publish(numbered(5)...)
	begun, finish := make(chan string, 5), make(chan struct{})
	c := b.config(func(ctx context.Context, m message.Message) error {
		begun <- m.ID
		<-finish
		return ctx.Err() // not ended by Run's context
	})
	c.Concurrency = 2
	r := start(t, c)
	<-begun
	<-begun
	r.cancel()
	b.wantHeld(b.queue, 3) // before the work in hand is finished
	close(finish)
	if err := r.await(); err != nil {
		t.Fatal(err)
	}
	for _, o := range r.observe(2) {
		if o.Outcome != consumer.Acknowledged {
			t.Errorf("observed %+v, want it acknowledged", o)
		}
	}
	b.wantHeld(b.queue, 3)
	if len(begun) > 0 {
		t.Errorf("began %s after the end", <-begun)
	}
}

func TestDrainTimeoutEndsTheHandlersContext(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.bind()
	b.publish(numbered(1)...)
	begun := make(chan struct{})
	c := b.config(func(ctx context.Context, _ message.Message) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	})
	c.DrainTimeout = 100 * time.Millisecond
	r := start(t, c)
	<-begun
	r.stop()
	if o := r.observe(1)[0]; o.Outcome != consumer.Returned {
		t.Errorf("observed %+v, want it returned", o)
	}
	b.wantHeld(b.queue, 1)
}

func TestAHandlerThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.bind()
	b.publish(numbered(1)...)
	begun, finish := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(finish) })
	c := b.config(func(context.Context, message.Message) error {
		close(begun)
		<-finish
		return nil
	})
	c.DrainTimeout = 100 * time.Millisecond
	r := start(t, c)
	<-begun
	r.cancel()
	if err := r.await(); !errors.Is(err, consumer.ErrNotDrained) {
		t.Errorf("got %v, want ErrNotDrained", err)
	}
	b.wantHeld(b.queue, 1)
}

func TestCancelledBeforeThereIsABroker(t *testing.T) {
	t.Parallel()
	c := newBroker(t).config(acknowledge)
	c.AMQPURL = "amqp://guest:guest@127.0.0.1:1/"
	start(t, c).stop()
}

// The broker keeps acknowledgements back that come fast, and forgets them when the
// channel is closed: an end in order waits for them.
func TestWhatWasAcknowledgedDoesNotComeAgain(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.bind()
	const n = 300
	for range 5 {
		b.publish(numbered(n)...)
		c := b.config(acknowledge)
		c.Concurrency, c.Prefetch = 50, n
		r := start(t, c)
		r.observe(n)
		r.stop()
		b.wantHeld(b.queue, 0)
	}
}
