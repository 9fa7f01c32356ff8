package producer_test

import (
	"errors"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer"
)

// count returns how many answers so far are such as is says.
func (l *load) count(is func(error) bool) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, err := range l.answers {
		if is(err) {
			n++
		}
	}
	return n
}

// A tier's exchange that is deleted and put back, as by a bridge or an
// operator, needs no restart of the producers; and what they were told of each
// message meanwhile is true.
func TestExchangeDeletedAndPutBack(t *testing.T) {
	t.Parallel()
	b, _ := newBench(t)
	p := b.producer(t, producer.Config{})
	tier, _ := b.topology.Tier(300 * time.Millisecond)
	l := startLoad(t, p)
	l.await(t, 500)
	if err := b.ch.ExchangeDelete(tier.Name, false, false); err != nil {
		t.Fatal(err)
	}
	missed := func(err error) bool {
		return errors.Is(err, producer.ErrNotSent) && errors.Is(err, producer.ErrMissing)
	}
	for deadline := time.Now().Add(patience); l.count(missed) < 20; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nobody noticed that the exchange is missing")
		}
	}
	b.apply(t)
	err := producer.ErrUnconfirmed
	for errors.Is(err, producer.ErrUnconfirmed) { // as long as the broker closes channels over what came before
		_, err = p.Publish(t.Context(), order("first"), message.After(tier.TTL))
	}
	if err != nil {
		t.Fatalf("once the exchange is back: %v", err)
	}
	l.await(t, 500)
	l.stop()
	// Both paths keep their order, so that nothing can arrive after these.
	for id, w := range map[string]message.When{"end of the tier": message.After(tier.TTL), "end of the rest": {}} {
		if _, err := p.Publish(t.Context(), order(id), w); err != nil {
			t.Fatal(err)
		}
	}
	arrived := b.collect(t, everything, append(l.confirmed(), "first", "end of the tier", "end of the rest")...)
	unconfirmed, there := 0, 0
	for id, err := range l.answers {
		_, came := arrived[id]
		switch {
		case err == nil:
		case errors.Is(err, producer.ErrUnconfirmed):
			unconfirmed++
			if came {
				there++
			}
		case !errors.Is(err, producer.ErrNotSent) && !errors.Is(err, producer.ErrUnroutable):
			t.Errorf("%s: got %v, want ErrUnconfirmed, ErrNotSent or ErrUnroutable", id, err)
		case came:
			t.Errorf("%s arrived, though the answer was %v", id, err)
		}
	}
	t.Logf("%d published, %d confirmed, %d unconfirmed of which %d arrived", len(l.answers), len(l.confirmed()), unconfirmed, there)
}
