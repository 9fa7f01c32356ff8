package redisbridge_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// What is parked by many at once is told apart: each gets its own answer.
func TestParkManyAtOnce(t *testing.T) {
	t.Parallel()
	const n = 300
	b := newBench(t, short())
	before := time.Now().Add(time.Hour)
	for range 2 { // the second time all are there
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				m := &message.Message{ID: fmt.Sprint("m-", i), RoutingKey: "order.unpaid", Body: make([]byte, i*100)}
				when, want := message.After(time.Hour+time.Duration(i)*time.Second), message.Parked
				if i%3 == 0 {
					when, want = message.At(time.Now().Add(-time.Minute)), message.Overdue
				}
				ticket, err := b.park.Park(t.Context(), m, when)
				if err != nil {
					t.Error(err)
					return
				}
				if ticket.Parking != want && ticket.Parking != message.ParkedBefore {
					t.Errorf("message %d: got %+v, want %v", i, ticket, want)
				}
				if late := ticket.Due.Sub(before.Add(time.Duration(i) * time.Second)); want == message.Parked && (late < -time.Second || late > time.Minute) {
					t.Errorf("message %d is due %v beside its time", i, late)
				}
			})
		}
		all.Wait()
	}
}

// What parking a message takes is used again for others. That must never mix them up,
// nor give anybody another one's answer, though callers go away in the midst of it.
func TestParkTellsMessagesApart(t *testing.T) {
	t.Parallel()
	const hands, each = 64, 40
	b := newBench(t, short())
	type call struct {
		m      message.Message
		ticket message.Ticket
		err    error
	}
	calls := make([]call, hands*each)
	var all sync.WaitGroup
	for hand := range hands {
		all.Go(func() {
			for i := hand * each; i < (hand+1)*each; i++ {
				id := fmt.Sprint("m-", i)
				size := 1 + i%50
				if i%10 == 0 {
					size *= 100 // too large to be kept for the next one
				}
				m := message.Message{ID: id, RoutingKey: id, Body: bytes.Repeat([]byte(id), size)}
				ctx, cancel := t.Context(), func() {}
				if i%2 == 1 { // it goes away at any point of its way
					ctx, cancel = context.WithTimeout(ctx, time.Duration(i%each)*100*time.Microsecond)
				}
				ticket, err := b.park.Park(ctx, &m, message.After(time.Hour+time.Duration(i)*time.Second))
				cancel()
				calls[i] = call{m, ticket, err}
			}
		})
	}
	all.Wait()
	for i, c := range calls {
		e, known, err := lookUp(b.park.Get(t.Context(), c.m.ID))
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case c.err == nil && (!known || c.ticket.Parking != message.Parked || !e.Due.Equal(c.ticket.Due)):
			t.Errorf("message %d: told that it is due %v (%v), found %v due %v", i, c.ticket.Due, c.ticket.Parking, known, e.Due)
		case c.err != nil && i%2 == 0:
			t.Errorf("message %d: %v", i, c.err)
		case c.err != nil && !errors.Is(c.err, redisbridge.ErrUnconfirmed) && known:
			t.Errorf("message %d is there after %v", i, c.err)
		case known && (e.Message.RoutingKey != c.m.RoutingKey || !bytes.Equal(e.Message.Body, c.m.Body)):
			t.Errorf("message %d: found key %s and %.20q..., want %.20q...", i, e.Message.RoutingKey, e.Message.Body, c.m.Body)
		}
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.parkOne(t, "stays", message.After(2*time.Second))
	b.parkOne(t, "goes", message.After(1500*time.Millisecond))
	for _, c := range []struct {
		id   string
		want redisbridge.Outcome
	}{{"goes", redisbridge.OutcomeDone}, {"goes", redisbridge.OutcomeCancelledBefore}, {"never was", redisbridge.OutcomeRecorded}} {
		got, err := b.park.Cancel(t.Context(), c.id)
		if err != nil || got.Outcome != c.want {
			t.Errorf("cancel %q: got %v, %v; want %v", c.id, got, err, c.want)
		}
	}
	again, err := b.park.Park(t.Context(), &message.Message{ID: "goes", RoutingKey: "order.unpaid"}, message.After(time.Second))
	if err != nil || again.Parking != message.CancelledBefore {
		t.Errorf("park what was cancelled: got %+v, %v; want to be told", again, err)
	}
	b.run(t, nil)
	arrived := b.arrivals.await(t, 1, patience)
	if len(arrived["stays"]) != 1 {
		t.Errorf("arrived: %v, want what was not cancelled, once", arrived)
	}
}
