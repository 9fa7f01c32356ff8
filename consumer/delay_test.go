package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
)

// republisher is a Delayer that does not wait: it publishes what comes back at once,
// as a bridge does when it is due.
type republisher struct {
	b  *broker
	ch *amqp.Channel

	mu     sync.Mutex
	pauses []time.Duration
	down   int // so many calls fail; negative for all
}

func (b *broker) republisher() *republisher {
	b.t.Helper()
	ch := b.channel()
	if err := ch.Confirm(false); err != nil {
		b.t.Fatal(err)
	}
	return &republisher{b: b, ch: ch}
}

var errDown = errors.New("cannot reach Redis")

func (r *republisher) Delay(_ context.Context, m *message.Message, d time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pauses = append(r.pauses, d); r.down != 0 {
		r.down--
		return errDown
	}
	retry := m.Retry()
	confirmed, err := r.ch.PublishWithDeferredConfirm(r.b.topology.RetryExchange(), m.Journey.Queue, true, false,
		retry.Publishing(message.Journey{Due: time.Now(), Path: wire.RetryPath}))
	if err == nil && !confirmed.Wait() {
		err = errors.New("refused")
	}
	return err
}

func (r *republisher) calls() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.pauses)
}

// byAttempt sorts observations: a message may be back before its last one is told.
func byAttempt(seen []consumer.Observation) {
	slices.SortFunc(seen, func(a, b consumer.Observation) int { return a.Attempts - b.Attempts })
}

func TestRetryComesBackToItsQueueAlone(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	delayer := b.republisher()
	var got []message.Message
	c := b.config(func(_ context.Context, m message.Message) error {
		switch got = append(got, m); len(got) {
		case 1:
			return errHandler
		case 2:
			return fmt.Errorf("wrapped: %w", consumer.RetryAfter(time.Hour, errHandler))
		}
		return nil
	})
	c.Delayer, c.Retry = delayer, consumer.Retry{Base: time.Minute, Jitter: -1}
	other := *b
	other.queue = "shipping"
	b.bind()
	other.bind()
	r := start(t, c)
	elsewhere := start(t, other.config(acknowledge))
	// Else publish may have to repeat itself for one queue, and the other one has it twice.
	<-r.ready
	<-elsewhere.ready

	want := whole()
	want.Headers["CC"] = []any{other.queue, "no such queue"}
	b.publish(want)
	seen := r.observe(3)
	byAttempt(seen)
	for i, outcome := range []consumer.Outcome{consumer.Delayed, consumer.Delayed, consumer.Acknowledged} {
		if o := seen[i]; o.Outcome != outcome || o.Attempts != i+1 || (o.Err == nil) != (outcome == consumer.Acknowledged) {
			t.Errorf("observed %+v, want it %s after attempt %d", o, outcome, i+1)
		}
		m := got[i]
		if m.Journey.Attempts != i || len(m.Journey.History) != i || (m.Journey.Queue == "") != (i == 0) {
			t.Errorf("attempt %d: journey %+v", i+1, m.Journey)
		}
		m.Journey = want.Journey
		if fmt.Sprint(m) != fmt.Sprint(want) {
			t.Errorf("attempt %d: got  %+v\nwant %+v", i+1, m, want)
		}
	}
	pauses := delayer.calls()
	for i, want := range []time.Duration{time.Minute, time.Hour} {
		if len(pauses) != 2 || pauses[i] > want || pauses[i] < want-30*time.Second {
			t.Errorf("pauses %v, want about %v as number %d", pauses, want, i+1)
		}
	}
	r.stop()
	b.wantHeld(b.queue, 0)
	b.wantHeld(b.topology.Unrouted(), 0)
	if n := len(elsewhere.observe(1)); n != 1 {
		t.Errorf("another queue got it %d times", n)
	}
}

func TestRetriedForeverIsNeverTheLastAttempt(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	n := 0
	c := b.config(func(context.Context, message.Message) error {
		if n++; n <= 5 {
			return fmt.Errorf("the shop is closed: %w", consumer.RetryForever(errHandler))
		}
		return errHandler
	})
	c.Delayer, c.Retry.Attempts = b.republisher(), 2
	b.bind()
	r := start(t, c)
	b.publish(whole())
	seen := r.observe(6)
	byAttempt(seen)
	for i, o := range seen {
		if want := map[bool]consumer.Outcome{true: consumer.Delayed, false: consumer.Quarantined}[i < 5]; o.Outcome != want || o.Attempts != i+1 {
			t.Errorf("attempt %d: %s, want %s", o.Attempts, o.Outcome, want)
		}
	}
}

func TestTheLastAttemptIsCountedOverRetries(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	n := 0
	c := b.config(func(context.Context, message.Message) error {
		n++
		if n == 4 {
			panic("at last")
		}
		return fmt.Errorf("failure %d", n)
	})
	delayer := b.republisher()
	c.Delayer, c.Retry.Attempts = delayer, 4
	b.bind()
	r := start(t, c)
	b.publish(whole())
	seen := r.observe(4)
	byAttempt(seen)
	if o := seen[3]; o.Outcome != consumer.Quarantined || o.Attempts != 4 {
		t.Errorf("observed %+v", o)
	}
	d := b.get(b.topology.Quarantine())
	m := b.topology.Message(&d)
	if m.Journey.Attempts != 4 || m.Journey.Queue != b.queue || d.RoutingKey != key {
		t.Errorf("routing key %q, journey %+v", d.RoutingKey, m.Journey)
	}
	for i, what := range []string{"failure 1", "failure 2", "failure 3", "at last"} {
		if h := m.Journey.History; len(h) != 4 || !strings.HasSuffix(h[i], what) {
			t.Fatalf("history %q, want %q as number %d", h, what, i+1)
		}
	}
	if n := len(delayer.calls()); n != 3 {
		t.Errorf("delayed %d times, want 3", n)
	}
}

func TestWhatCannotBeParkedStaysUnacknowledged(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	delayer := b.republisher()
	delayer.down = 3
	fail := true
	c := b.config(func(context.Context, message.Message) error {
		if fail {
			fail = false
			return errHandler
		}
		return nil
	})
	c.Delayer = delayer
	b.bind()
	r := start(t, c)
	b.publish(numbered(1)...)
	o := r.observe(2)
	byAttempt(o)
	if o[0].Outcome != consumer.Delayed || o[1].Outcome != consumer.Acknowledged || o[1].Attempts != 2 {
		t.Errorf("observed %+v", o)
	}
	if n := len(delayer.calls()); n != 4 {
		t.Errorf("asked %d times, want 4", n)
	}
	r.stop()
	b.wantHeld(b.queue, 0)

	delayer.down, fail = -1, true // for good
	r = start(t, c)
	b.publish(numbered(1)...)
	eventually(t, func() error {
		if len(delayer.calls()) < 6 {
			return errors.New("not asked yet")
		}
		return nil
	})
	r.stop()
	if o := r.observe(1)[0]; o.Outcome != consumer.Returned {
		t.Errorf("observed %+v, want it returned", o)
	}
	b.wantHeld(b.queue, 1)
}

// Without Bind the queue is somebody else's, and bound for its retries nevertheless.
func TestRetriesOfAQueueThatIsThere(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.bind()
	c := b.config(func(_ context.Context, m message.Message) error {
		if m.Journey.Attempts == 0 {
			return errHandler
		}
		return nil
	})
	c.Bind, c.Delayer, c.RepairEvery = nil, b.republisher(), 50*time.Millisecond
	r := start(t, c)
	b.publish(numbered(1)...)
	r.observe(2)

	// Somebody deletes the binding: it is made again.
	if err := b.channel().QueueUnbind(b.queue, b.queue, b.topology.RetryExchange(), nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		var bindings []struct{ Destination string }
		b.read("/api/exchanges/"+b.vhost+"/"+b.topology.RetryExchange()+"/bindings/source", &bindings)
		if len(bindings) != 1 || bindings[0].Destination != b.queue {
			return fmt.Errorf("bindings %v", bindings)
		}
		return nil
	})
}

func TestNoPermissionForRetries(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.bind()
	c := b.config(acknowledge)
	c.Bind, c.Delayer = nil, &republisher{}
	c.AMQPURL = b.restrictedUser(`{"configure":".*","write":"^$","read":".*"}`)
	wantEnd(t, c, consumer.ErrForbidden, "bind the queue to "+b.topology.RetryExchange(), "write permission", "set_permissions")

	if err := b.channel().ExchangeDelete(b.topology.RetryExchange(), false, false); err != nil {
		t.Fatal(err)
	}
	c.AMQPURL = b.url
	wantEnd(t, c, consumer.ErrMissing, b.topology.RetryExchange(), "delaybridge topology apply")
}

// A client may publish again what it has consumed, headers and all.
func TestAttemptsOfOthersDoNotCount(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := b.config(func(_ context.Context, m message.Message) error {
		if m.Journey.Attempts != 0 || m.Journey.Queue != "" || m.Journey.History != nil || m.RoutingKey != key {
			return consumer.Reject(fmt.Errorf("journey %+v", m.Journey))
		}
		return nil
	})
	b.bind()
	r := start(t, c)
	m := whole()
	m.Journey.Queue, m.Journey.Attempts, m.Journey.History = b.queue, 99, []string{"at some time"}
	b.publish(m)
	if o := r.observe(1)[0]; o.Outcome != consumer.Acknowledged || o.Attempts != 1 {
		t.Errorf("observed %+v", o)
	}
}
