package redisbridge_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// parkAtOnce parks one of each ID at the same time.
func (b *bench) parkAtOnce(t *testing.T, n int, when func(i int) message.When) []message.Ticket {
	t.Helper()
	var all sync.WaitGroup
	tickets := make([]message.Ticket, n)
	for i := range n {
		all.Go(func() {
			m := &message.Message{ID: fmt.Sprint("m-", i), RoutingKey: "order.unpaid", Body: make([]byte, i)}
			var err error
			if tickets[i], err = b.park.Park(t.Context(), m, when(i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	return tickets
}

// exactly checks that each message arrived once, unspoilt, and not early.
func (b *bench) exactly(t *testing.T, tickets []message.Ticket) {
	t.Helper()
	all := b.arrivals.await(t, len(tickets), patience)
	for i, ticket := range tickets {
		got := all[fmt.Sprint("m-", i)]
		if len(got) != 1 {
			t.Errorf("message %d arrived %d times", i, len(got))
			continue
		}
		if got[0].at.Before(ticket.Due) || !got[0].Journey.Due.Equal(ticket.Due) || len(got[0].Body) != i {
			t.Errorf("message %d arrived %v after its time, due %v, with %d bytes; want %v",
				i, got[0].at.Sub(ticket.Due), got[0].Journey.Due, len(got[0].Body), ticket.Due)
		}
	}
}

// Redis that is killed in the middle of a script leaves its beginning (lua/lib.lua): entries
// in the schedule that no record belongs to, or that have taken the place of the right one.
func TestStaleEntriesDoNoHarm(t *testing.T) {
	t.Parallel()
	for name, overdue := range map[string]bool{"in time": false, "overdue": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n = 60
			b := newBench(t, short())
			tickets := b.parkAtOnce(t, n, func(i int) message.When { return message.After(3*time.Second + time.Duration(i)*20*time.Millisecond) })
			for i, ticket := range tickets {
				off := []time.Duration{-2500 * time.Millisecond, -time.Second, -time.Millisecond, 0, time.Millisecond, 2 * time.Second}[i%6]
				if err := redisbridge.LeaveEntry(t.Context(), b.park, fmt.Sprint("m-", i), ticket.Due.Add(off)); err != nil {
					t.Fatal(err)
				}
			}
			if overdue {
				waitUntil(t, tickets[n-1].Due.Add(3*time.Second))
			}
			b.run(t, nil)
			b.exactly(t, tickets)
		})
	}
}
