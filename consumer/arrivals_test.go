package consumer_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/message"
)

// clerk answers for each ID what it was told to, one answer after the other.
type clerk struct {
	mu      sync.Mutex
	answers map[string][]*message.Arrival // nil is an error
	told    map[string][]message.Handling
}

func (c *clerk) Handled(_ context.Context, m *message.Message, h message.Handling) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.told == nil {
		c.told = map[string][]message.Handling{}
	}
	c.told[m.ID] = append(c.told[m.ID], h)
	return errors.New("which must not matter")
}

func (c *clerk) Arrive(_ context.Context, m *message.Message) (message.Arrival, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	arrival := &message.Arrival{}
	if list := c.answers[m.ID]; len(list) > 0 {
		arrival, c.answers[m.ID] = list[0], list[1:]
	}
	if arrival == nil {
		return message.Arrival{}, errors.New("Redis cannot be reached")
	}
	return *arrival, nil
}

func TestWhatIsNotWantedAnyMoreIsDropped(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	var mu sync.Mutex
	handled := map[string]int{}
	c := b.config(func(_ context.Context, m message.Message) error {
		mu.Lock()
		defer mu.Unlock()
		handled[m.ID]++
		return nil
	})
	c.Concurrency = 2 // fewer than there are messages to drop: each gives its slot back
	messages := numbered(6)
	cancelled := &message.Arrival{Cancelled: true}
	c.Arrivals = &clerk{answers: map[string][]*message.Arrival{
		messages[0].ID: {cancelled}, messages[1].ID: {{Rescheduled: true}},
		messages[2].ID: {nil, nil, cancelled}, messages[3].ID: {nil, {}}, messages[4].ID: {cancelled},
	}}
	b.bind()
	r := start(t, c)
	b.publish(messages...)
	want := map[string]consumer.Outcome{
		messages[0].ID: consumer.Dropped, messages[1].ID: consumer.Dropped, messages[2].ID: consumer.Dropped,
		messages[3].ID: consumer.Acknowledged, messages[4].ID: consumer.Dropped, messages[5].ID: consumer.Acknowledged,
	}
	for _, o := range r.observe(len(messages)) {
		if o.Outcome != want[o.Message.ID] {
			t.Errorf("%s: observed %+v, want %s", o.Message.ID, o, want[o.Message.ID])
		}
		mu.Lock()
		if got := handled[o.Message.ID]; (got == 1) != (o.Outcome == consumer.Acknowledged) || got > 1 {
			t.Errorf("%s: handled %d times", o.Message.ID, got)
		}
		mu.Unlock()
	}
	r.stop()
	b.wantHeld(b.queue, 0)
}

// What is not known from the arrival alone is told: what failed, and what became of it.
func TestWhatBecameOfAMessageIsTold(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	messages := numbered(3)
	fine, shaky, hopeless := messages[0].ID, messages[1].ID, messages[2].ID
	c := b.config(func(_ context.Context, m message.Message) error {
		if m.ID == hopeless || m.ID == shaky && m.Journey.Attempts == 0 {
			return errHandler
		}
		return nil
	})
	told := &clerk{}
	c.Arrivals, c.Delayer, c.Retry.Attempts = told, b.republisher(), 2
	b.bind()
	r := start(t, c)
	b.publish(messages...)
	r.observe(5)
	r.stop()
	if got := told.told[fine]; len(got) != 0 {
		t.Errorf("%s: told %+v, want nothing", fine, got)
	}
	for id, want := range map[string]consumer.Outcome{shaky: consumer.Acknowledged, hopeless: consumer.Quarantined} {
		got := told.told[id]
		if len(got) != 2 {
			t.Fatalf("%s: told %+v, want two notes", id, got)
		}
		first, last := got[0], got[1]
		if first.At.After(last.At) { // the retry was quicker than the note of it
			first, last = last, first
		}
		if first.Queue != b.queue || first.Outcome != string(consumer.Delayed) || first.Attempts != 1 || first.RetryAt.Before(first.At) || len(first.History) != 1 {
			t.Errorf("%s after the first attempt: told %+v", id, first)
		}
		if last.Outcome != string(want) || last.Attempts != 2 || !last.RetryAt.IsZero() || len(last.History) == 0 {
			t.Errorf("%s in the end: told %+v, want %s", id, last, want)
		}
	}
}
