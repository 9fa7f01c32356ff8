package redisbridge_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// transactions counts those of a client.
type transactions struct{ atomic.Int64 }

func (n *transactions) DialHook(next redis.DialHook) redis.DialHook { return next }

func (n *transactions) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (n *transactions) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "multi" {
			n.Add(1)
		}
		return next(ctx, cmds)
	}
}

// newPlainBench has a park that uses plain commands for every lot, once it knows
// Redis' clock.
func newPlainBench(t *testing.T) (*bench, *transactions) {
	t.Helper()
	return newPlainBenchIn(t, short())
}

func newPlainBenchIn(t *testing.T, c topology.Config) (*bench, *transactions) {
	t.Helper()
	b, n := newBench(t, c), &transactions{}
	b.client.AddHook(n)
	redisbridge.ParkPlainly(b.park)
	for i := range 20 { // by script, at first
		b.parkOne(t, fmt.Sprint("first-", i), message.After(24*time.Hour))
	}
	return b, n
}

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

func TestPlainCommandsParkAsTheScriptDoes(t *testing.T) {
	t.Parallel()
	const n = 300
	b, transactions := newPlainBench(t)
	before := transactions.Load()
	called := time.Now()
	in := func(i int) time.Duration { return 2*time.Second + time.Duration(i)*10*time.Millisecond }
	tickets := b.parkAtOnce(t, n, func(i int) message.When {
		if i%2 == 0 {
			return message.At(called.Add(in(i)))
		}
		return message.After(in(i))
	})
	if transactions.Load() == before {
		t.Fatal("no plain commands were used, so this tests nothing")
	}
	for i, ticket := range tickets {
		if early := called.Add(in(i)).Truncate(time.Millisecond).Sub(ticket.Due); ticket.Parking != message.Parked || early > 0 {
			t.Errorf("message %d: got %+v, due %v early", i, ticket, early)
		}
	}
	// What is parked already stays as it is, whatever is asked for.
	for i, ticket := range b.parkAtOnce(t, n, func(i int) message.When { return message.After(in(n-i) - 500*time.Millisecond) }) {
		if want := (message.Ticket{Parking: message.ParkedBefore, Due: tickets[i].Due}); ticket != want {
			t.Errorf("message %d again: got %+v, want %+v", i, ticket, want)
		}
	}
	b.run(t, nil)
	b.exactly(t, tickets)
}

// A process that dies before it has taken back what it stored in vain leaves
// entries in the schedule that no envelope belongs to. Those of a message that is overdue
// are all claimed at once.
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
				err := redisbridge.StoreAndVanish(t.Context(), b.park, &message.Message{ID: fmt.Sprint("m-", i), RoutingKey: "another"}, ticket.Due.Add(off))
				if err != nil {
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

// The same where such an entry is the only one that a message has: it was there when
// the ID was parked again, after a cancellation, for another instant of that bucket.
func TestStaleEntryIsPutRight(t *testing.T) {
	t.Parallel()
	const n = 60
	b, transactions := newPlainBench(t)
	again := time.Now().Add(12 * time.Second).Truncate(2 * time.Second) // when a bucket of a lane begins
	b.parkAtOnce(t, n, func(int) message.When { return message.At(again.Add(time.Hour)) })
	var all errgroup.Group
	for i := range n {
		all.Go(func() error {
			id := fmt.Sprint("m-", i)
			if i < n/2 {
				err := redisbridge.StoreAndVanish(t.Context(), b.park, &message.Message{ID: id, RoutingKey: "another"}, again.Add(time.Duration(100+i)*time.Millisecond))
				if err != nil {
					return err
				}
			}
			if change, err := b.park.Cancel(t.Context(), id); err != nil || change.Outcome != redisbridge.Done {
				return fmt.Errorf("cancel: got %+v, %w; want it done", change, err)
			}
			// In time the bridge forgets this.
			return redisbridge.Forget(t.Context(), b.client, b.topology, id)
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := redisbridge.Mislead(t.Context(), b.park, 0); err != nil { // what it knows of the clock may be old by now
		t.Fatal(err)
	}
	before := transactions.Load()
	tickets := b.parkAtOnce(t, n, func(i int) message.When { return message.At(again.Add(time.Duration(900+i) * time.Millisecond)) })
	if transactions.Load() == before {
		t.Fatal("no plain commands were used, so this tests nothing")
	}
	b.run(t, nil)
	b.exactly(t, tickets)
}

// After a failover another server may answer, whose clock is another one.
func TestWrongIdeaOfTheClockIsMended(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{-time.Minute, time.Minute} {
		t.Run(off.String(), func(t *testing.T) {
			t.Parallel()
			b, transactions := newPlainBench(t)
			before := transactions.Load()
			if err := redisbridge.Mislead(t.Context(), b.park, off); err != nil {
				t.Fatal(err)
			}
			called := time.Now()
			due := b.parkOne(t, "m-0", message.After(2*time.Minute))
			if transactions.Load() == before {
				t.Fatal("no plain commands were used, so this tests nothing")
			}
			if late := due.Sub(called.Add(2 * time.Minute)); late < -time.Millisecond || late > 30*time.Second {
				t.Errorf("due %v after its time", late)
			}
			if change, err := b.park.Cancel(t.Context(), "m-0"); err != nil || change.Outcome != redisbridge.Done {
				t.Errorf("cancel: got %+v, %v; want it done", change, err)
			}
		})
	}
}

// holdBack holds back transactions for a time, and calls of a script until something is so.
type holdBack struct {
	transactions time.Duration
	script       string
	until        func()
	called       atomic.Bool
}

func (h *holdBack) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *holdBack) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "multi" {
			<-time.After(h.transactions)
		}
		return next(ctx, cmds)
	}
}

func (h *holdBack) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	names := redisbridge.ScriptNames()
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); cmd.Name() == "evalsha" && names[fmt.Sprint(args[1])] == h.script {
			h.called.Store(true)
			h.until()
		}
		return next(ctx, cmd)
	}
}

// Redis stands still for a while, so that its clock is suspected; until what was stored
// is taken back, a bridge has promoted it. It comes at its time, once, whatever follows.
func TestWhatIsPromotedIsNotTakenBack(t *testing.T) {
	t.Parallel()
	b, _ := newPlainBenchIn(t, topology.Config{Tiers: []time.Duration{time.Second, 5 * time.Second}, Lead: 5 * time.Second, Shards: 2})
	b.run(t, nil)
	slow := &holdBack{transactions: time.Second, script: "takeback", until: func() {
		for deadline := time.Now().Add(patience); ; <-time.After(10 * time.Millisecond) {
			e, _, err := b.park.Look(t.Context(), "m-0")
			if err != nil || time.Now().After(deadline) {
				t.Errorf("m-0 is %q, want it in its lane; %v", e.State, err)
				return
			}
			if e.State == redisbridge.StateInLane {
				return
			}
		}
	}}
	b.client.AddHook(slow)
	tickets := b.parkAtOnce(t, 1, func(int) message.When { return message.After(8 * time.Second) })
	if !slow.called.Load() {
		t.Fatal("nothing was to be taken back, so this tests nothing")
	}
	if tickets[0].Parking != message.Parked {
		t.Errorf("got %+v, want it parked", tickets[0])
	}
	b.exactly(t, tickets)
}

// A restart, or a failover, empties the script cache; a transaction does not fill it.
func TestPlainCommandsWakeTheBridgeWithoutTheScript(t *testing.T) {
	t.Parallel()
	b, _ := newPlainBench(t)
	b.run(t, nil)
	b.parkOne(t, "far", message.After(time.Hour)) // the bridge sets its alarm
	for _, server := range operator(servertest.Primaries(t, b.RedisURL)) {
		if err := server.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	b.exactly(t, b.parkAtOnce(t, 40, func(int) message.When { return message.After(1500 * time.Millisecond) }))
}
