package consumer_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/message"
)

// customers are n messages for each of a, b and c, mixed: a-0, b-0, c-0, a-1 and on.
func customers(n int) []message.Message {
	var all []message.Message
	for i := range n {
		for _, customer := range []string{"a", "b", "c"} {
			all = append(all, message.Message{ID: fmt.Sprintf("%s-%d", customer, i)})
		}
	}
	return all
}

func customer(m message.Message) string {
	name, _, _ := strings.Cut(m.ID, "-")
	return name
}

// attendance notes down who is handled when, and fails where two of one key are.
type attendance struct {
	t     *testing.T
	mu    sync.Mutex
	here  map[string]string
	order map[string][]string
}

func attend(t *testing.T) *attendance {
	t.Helper()
	return &attendance{t: t, here: map[string]string{}, order: map[string][]string{}}
}

// enter returns what to call at the end.
func (a *attendance) enter(m message.Message) (leave func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := customer(m)
	if other, busy := a.here[key]; busy {
		a.t.Errorf("%s and %s are handled at the same time", other, m.ID)
	}
	a.here[key] = m.ID
	a.order[key] = append(a.order[key], m.ID)
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.here, key)
	}
}

func TestOneOfAKeyAtATime(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.bind()
	const n = 50
	b.publish(customers(n)...)
	a := attend(t)
	passed := make(chan struct{})
	c := b.config(func(_ context.Context, m message.Message) error {
		defer a.enter(m)()
		switch m.ID {
		case "a-0":
			<-passed // the others go on meanwhile
		case "c-49":
			close(passed)
		}
		return nil
	})
	c.OrderBy, c.Concurrency, c.Prefetch = customer, 3, 3*n
	r := start(t, c)
	r.observe(3 * n)
	for _, key := range []string{"a", "b", "c"} {
		for i, id := range a.order[key] {
			if want := fmt.Sprintf("%s-%d", key, i); id != want {
				t.Fatalf("number %d is %s, want %s", i, id, want)
			}
		}
	}
	r.stop()
	b.wantHeld(b.queue, 0)
}

func TestARetryInHandHoldsItsKeyBack(t *testing.T) {
	t.Parallel()
	for name, delayed := range map[string]bool{"in hand": false, "with a Delayer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t)
			b.bind()
			b.publish(customers(3)...)
			a := attend(t)
			c := b.config(func(_ context.Context, m message.Message) error {
				defer a.enter(m)()
				if m.ID == "b-0" && m.Journey.Attempts == 0 {
					return errHandler
				}
				return nil
			})
			c.OrderBy = customer
			want, observed := []string{"b-0", "b-0", "b-1", "b-2"}, 9
			if delayed {
				c.Delayer = b.republisher()
				want, observed = []string{"b-0", "b-1", "b-2", "b-0"}, 10
			}
			r := start(t, c)
			r.observe(observed)
			if !slices.Equal(a.order["b"], want) {
				t.Errorf("handled %v, want %v", a.order["b"], want)
			}
		})
	}
}

// What waits for its turn when its consumer ends, or its channel is lost, is handled by
// the next one.
func TestWhatWaitsForItsTurnIsGivenBack(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.bind()
	b.publish(customers(20)...)
	a := attend(t)
	held, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c := b.config(func(_ context.Context, m message.Message) error {
		defer a.enter(m)()
		if customer(m) == "a" {
			once.Do(func() { close(held) })
			<-release
		}
		return nil
	})
	c.OrderBy, c.Prefetch, c.AMQPURL = customer, 60, b.userToBeCut()
	start(t, c)
	<-held
	b.cutConnections(2)
	b.wantConsumer() // of the next session; a-0 is still with its handler
	close(release)
	eventually(t, func() error {
		a.mu.Lock()
		defer a.mu.Unlock()
		seen := map[string]bool{}
		for _, id := range slices.Concat(a.order["a"], a.order["b"], a.order["c"]) {
			seen[id] = true
		}
		if len(seen) != 60 {
			return fmt.Errorf("%d of 60 messages handled", len(seen))
		}
		return nil
	})
	b.wantHeld(b.queue, 0) // but a message whose acknowledgement was cut off may be in hand again
}

func TestAPanicInOrderByIsNotTheEnd(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := b.config(acknowledge)
	c.OrderBy = func(message.Message) string { panic("no order") }
	b.bind()
	r := start(t, c)
	b.publish(numbered(3)...)
	for _, o := range r.observe(3) {
		if o.Outcome != consumer.Acknowledged {
			t.Errorf("observed %+v", o)
		}
	}
}

func TestSingleActive(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := b.config(acknowledge)
	c.SingleActive = true
	first := start(t, c)
	<-first.ready
	second := start(t, c)
	<-second.ready
	b.publish(numbered(50)...)
	first.observe(50)
	if n := len(second.observations()); n != 0 {
		t.Errorf("the second consumer got %d", n)
	}
	first.stop()
	b.publish(numbered(50)...)
	second.observe(50)
}
