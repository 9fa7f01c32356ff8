package redisbridge_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// desk is a consumer that asks about everything that comes.
type desk struct {
	b       *bench
	mu      sync.Mutex
	came    map[string]time.Time // of the last copy; to ask about all that came takes a slow Redis seconds
	handled map[string][]time.Time
	dues    map[string]time.Time // of the copies that were handled
	dropped map[string]int
	changed chan struct{}
}

// deliveries returns what comes to the queue, to be acknowledged.
func (b *bench) deliveries(t *testing.T) <-chan amqp.Delivery {
	t.Helper()
	ch, err := b.dial(t).Channel()
	if err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume(queueName, "", false, true, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return deliveries
}

// attend has a desk take what comes to the queue.
func (b *bench) attend(t *testing.T) *desk {
	t.Helper()
	deliveries := b.deliveries(t)
	d := &desk{b: b, came: map[string]time.Time{}, handled: map[string][]time.Time{}, dues: map[string]time.Time{}, dropped: map[string]int{}, changed: make(chan struct{}, 1)}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() { stop(); <-ended })
	here := make(chan amqp.Delivery, 1000) // more than any test has
	go func() {
		defer close(here)
		for delivery := range deliveries {
			d.mu.Lock()
			d.came[delivery.MessageId] = time.Now()
			d.mu.Unlock()
			here <- delivery
		}
	}()
	go func() {
		defer close(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case delivery, ok := <-here:
				if !ok {
					return
				}
				d.take(ctx, t, &delivery)
			}
		}
	}()
	return d
}

func (d *desk) take(ctx context.Context, t *testing.T, delivery *amqp.Delivery) {
	t.Helper()
	m := d.b.topology.Message(delivery)
	arrival, err := d.b.park.Arrive(ctx, &m)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		t.Errorf("%s: %v", m.ID, err)
	}
	d.mu.Lock()
	if arrival.Because() == isWanted {
		d.handled[m.ID] = append(d.handled[m.ID], time.Now())
		d.dues[m.ID] = m.Journey.Due
	} else {
		d.dropped[m.ID]++
	}
	d.mu.Unlock()
	if err := delivery.Ack(false); err != nil {
		t.Error(err)
	}
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// times returns when a message was handled.
func (d *desk) times(id string) []time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]time.Time(nil), d.handled[id]...)
}

func (d *desk) due(id string) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dues[id]
}

func (d *desk) drops(id string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dropped[id]
}

// confirming returns a channel that confirms what is published.
func (b *bench) confirming(t *testing.T) *amqp.Channel {
	t.Helper()
	ch, err := b.dial(t).Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	return ch
}

// waitUntil waits for an instant.
func waitUntil(t *testing.T, at time.Time) {
	t.Helper()
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// enter publishes as a foreign client does.
func (b *bench) enter(t *testing.T, ch *amqp.Channel, id string, delay time.Duration) {
	t.Helper()
	confirmation, err := ch.PublishWithDeferredConfirm(b.topology.EntryExchange(), "order.unpaid", true, false, amqp.Publishing{
		MessageId: id, DeliveryMode: amqp.Persistent, Body: []byte(id), Headers: amqp.Table{wire.HeaderDelay: delay.Milliseconds()},
	})
	if err != nil {
		t.Error(err)
		return
	}
	if !confirmation.Wait() {
		t.Errorf("%s: not confirmed", id)
	}
}

// place is where a message is when something is changed.
type place struct {
	name     string
	delay    time.Duration
	promoted bool // it has to be, first
	tier     bool // it goes straight into a tier
}

func places() []place {
	return []place{
		{name: "parked", delay: 10 * time.Second},
		{name: "promoted", delay: 8 * time.Second, promoted: true},
		{name: "in a tier", delay: 6 * time.Second, tier: true},
	}
}

// placed is a topology in which a slow machine, too, finds a message in its place.
func placed() topology.Config {
	return topology.Config{Tiers: []time.Duration{500 * time.Millisecond, time.Second, 6 * time.Second}, Lead: 6 * time.Second, Shards: 2}
}

// put publishes a message and waits until it is in its place. It returns what is
// told of a change there.
func (p place) put(t *testing.T, b *bench, ch *amqp.Channel, id string) redisbridge.Outcome {
	t.Helper()
	if p.tier {
		b.enter(t, ch, id, p.delay)
		return redisbridge.OutcomeRecorded // to Redis, which has never seen it
	}
	b.parkOne(t, id, message.After(p.delay))
	if p.promoted {
		until(t, id+" is promoted", func() bool { held, err := b.held(t, id); return err == nil && !held })
	}
	return redisbridge.OutcomeDone
}

func TestCancelWhereverItIs(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, placed(), servertest.ForTest(t))
	b.run(t, nil)
	desk, ch := b.attend(t), b.confirming(t)
	for _, place := range places() {
		t.Run(place.name, func(t *testing.T) {
			first := place.put(t, b, ch, place.name)
			second := redisbridge.OutcomeCancelledBefore
			if place.tier {
				second = first
			}
			for i, want := range []redisbridge.Outcome{first, second} {
				if change, err := b.park.Cancel(t.Context(), place.name); err != nil || change.Outcome != want {
					t.Errorf("cancelled %d times: got %+v, %v; want %s", i+1, change, err, want)
				}
			}
			if change, err := b.park.Reschedule(t.Context(), place.name, message.After(0)); err != nil || change.Outcome != redisbridge.OutcomeCancelledBefore {
				t.Errorf("rescheduled: got %+v, %v; want that it was cancelled", change, err)
			}
			after := "after " + place.name
			b.parkOne(t, after, message.After(place.delay+time.Second))
			until(t, after, func() bool { return len(desk.times(after)) == 1 })
			if place.name != "parked" && desk.drops(place.name) != 1 {
				t.Errorf("dropped %d times, want once", desk.drops(place.name))
			}
			if got := desk.times(place.name); got != nil {
				t.Errorf("handled at %v", got)
			}
		})
	}
}

func TestRescheduleWhereverItIs(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, placed(), servertest.ForTest(t))
	b.run(t, nil)
	desk, ch := b.attend(t), b.confirming(t)
	for _, place := range places() {
		for name, to := range map[string]time.Duration{"earlier": time.Second, "later": 12 * time.Second} {
			id := place.name + ", " + name
			t.Run(id, func(t *testing.T) {
				t.Parallel()
				want := place.put(t, b, ch, id)
				change, err := b.park.Reschedule(t.Context(), id, message.After(to))
				if err != nil || change.Outcome != want {
					t.Fatalf("got %+v, %v; want %s", change, err, want)
				}
				until(t, id+" is handled", func() bool { return len(desk.times(id)) > 0 })
				handled := desk.times(id)[0]
				if early := change.Due.Sub(handled); early > 0 {
					t.Errorf("%v early", early)
				}
				if due := desk.due(id); !place.tier && !due.Equal(change.Due) {
					t.Errorf("handled was the copy that was due %v, want that of %v", due, change.Due)
				}
				last := "after " + id
				b.parkOne(t, last, message.After(max(place.delay, to)+time.Second))
				until(t, last, func() bool { return len(desk.times(last)) == 1 })
				if got := desk.times(id); len(got) != 1 {
					t.Errorf("handled %d times", len(got))
				}
				for change, again := range map[string]func() (redisbridge.Change, error){
					"cancel": func() (redisbridge.Change, error) { return b.park.Cancel(t.Context(), id) },
					"reschedule": func() (redisbridge.Change, error) {
						return b.park.Reschedule(t.Context(), id, message.After(time.Minute))
					},
				} {
					got, err := again()
					if err != nil || got.Outcome != redisbridge.OutcomeDelivered || got.At.Sub(handled).Abs() > 10*time.Second {
						t.Errorf("%s afterwards: got %+v, %v; want that it was delivered at %v", change, got, err, handled)
					}
				}
			})
		}
	}
}

// act is what somebody did with a message, and was told.
type act struct {
	cancel           bool
	called, answered time.Time
	redisbridge.Change
}

// Whatever is told about a message is so, however close to its due time it is asked.
func TestWhatIsToldOfAChangeIsTrue(t *testing.T) {
	t.Parallel()
	const n = 600
	b := newBenchAt(t, short(), servertest.ForTest(t))
	for range 2 {
		b.run(t, nil)
	}
	desk, ch := b.attend(t), b.confirming(t)
	acts, overdue := make([][]act, n), make([]bool, n)
	var all sync.WaitGroup
	for i := range n {
		rng := rand.New(rand.NewPCG(6, uint64(i)))
		id, delay := fmt.Sprint("m-", i), time.Duration(300+rng.IntN(3500))*time.Millisecond
		tier := i%5 == 0
		if tier {
			delay = []time.Duration{500, 1000, 2000}[rng.IntN(3)] * time.Millisecond
		}
		all.Go(func() {
			if tier {
				b.enter(t, ch, id, delay)
			} else {
				ticket, err := b.park.Park(t.Context(), &message.Message{ID: id, RoutingKey: "order.unpaid"}, message.After(delay))
				if err != nil {
					t.Error(err)
				}
				if ticket.Parking == message.Overdue { // on a slow machine: nothing was stored
					overdue[i] = true
					return
				}
			}
			due := time.Now().Add(delay)
			for range 1 + rng.IntN(4) {
				// Mostly near the due time, where the promotion and the delivery are.
				at := due.Add(time.Duration(rng.IntN(600)-400) * time.Millisecond)
				if rng.IntN(3) == 0 {
					at = time.Now().Add(time.Duration(rng.Int64N(int64(delay))))
				}
				waitUntil(t, at)
				a := act{cancel: rng.IntN(3) == 0, called: time.Now()}
				var err error
				if a.cancel {
					a.Change, err = b.park.Cancel(t.Context(), id)
				} else {
					a.Change, err = b.park.Reschedule(t.Context(), id, message.After(time.Duration(rng.IntN(3000))*time.Millisecond))
					due = a.Due
				}
				a.answered = time.Now()
				if err != nil {
					t.Error(err)
					return
				}
				acts[i] = append(acts[i], a)
			}
		})
	}
	all.Wait()
	last := b.parkOne(t, "last", message.After(6*time.Second))
	until(t, "everything has come", func() bool {
		if len(desk.times("last")) == 0 {
			return false
		}
		for i := range n {
			if !overdue[i] && len(desk.times(fmt.Sprint("m-", i))) == 0 && !cancelled(acts[i]) {
				return time.Since(last) > patience/2
			}
		}
		return true
	})
	told := map[redisbridge.Outcome]int{}
	for i := range n {
		if overdue[i] {
			continue
		}
		if id := fmt.Sprint("m-", i); i%7 == 0 && len(desk.times(id)) > 0 {
			late, err := b.park.Cancel(t.Context(), id)
			if err != nil || late.Outcome != redisbridge.OutcomeDelivered {
				t.Errorf("cancel %s when it is too late: got %+v, %v", id, late, err)
			}
			told[late.Outcome]++
		}
		for _, fault := range untrue(acts[i], desk.times(fmt.Sprint("m-", i))) {
			t.Errorf("m-%d: %s: %+v, handled %v", i, fault, acts[i], desk.times(fmt.Sprint("m-", i)))
		}
		for _, a := range acts[i] {
			told[a.Outcome]++
		}
	}
	for _, outcome := range []redisbridge.Outcome{redisbridge.OutcomeDone, redisbridge.OutcomeCancelledBefore, redisbridge.OutcomeDelivered, redisbridge.OutcomeRecorded} {
		if told[outcome] == 0 {
			t.Errorf("nobody was told %q, so this tests little: %v", outcome, told)
		}
	}
}

// cancelled reports whether a cancellation came in time, as far as that was told.
func cancelled(acts []act) bool {
	for _, a := range acts {
		if a.Outcome == redisbridge.OutcomeDelivered {
			return false
		}
		if a.cancel && a.Outcome != redisbridge.OutcomeDelivered || a.Outcome == redisbridge.OutcomeCancelledBefore {
			return true
		}
	}
	return false
}

// untrue holds what was told of a message against when it was handled.
func untrue(acts []act, handled []time.Time) (faults []string) {
	if len(handled) > 1 {
		faults = append(faults, "handled more than once")
	}
	if len(handled) == 0 {
		if !cancelled(acts) {
			faults = append(faults, "lost")
		}
		for _, a := range acts {
			if a.Outcome == redisbridge.OutcomeDelivered {
				faults = append(faults, "told that it was delivered")
			}
		}
		return faults
	}
	for _, a := range acts {
		switch before, after := handled[0].Before(a.called), handled[0].After(a.answered); {
		case a.Outcome == redisbridge.OutcomeDone && a.cancel, a.Outcome == redisbridge.OutcomeCancelledBefore:
			faults = append(faults, "handled though cancelled")
		case a.Outcome == redisbridge.OutcomeDone && before:
			faults = append(faults, "rescheduled though delivered")
		case a.Outcome == redisbridge.OutcomeRecorded && a.cancel && after:
			faults = append(faults, "handled after a tombstone")
		case !a.cancel && a.Outcome != redisbridge.OutcomeDelivered && after && handled[0].Before(a.Due) && last(acts, a):
			faults = append(faults, "early")
		}
	}
	return faults
}

// last reports whether a is the last change of the due time.
func last(acts []act, a act) bool {
	for _, other := range acts {
		if !other.cancel && other.called.After(a.called) && other.Outcome != redisbridge.OutcomeDelivered {
			return false
		}
	}
	return true
}

// A message that was rescheduled to earlier is handled, and its old copy is in the lane still. A
// repetition that is published now is another message. The old copy must be dropped all the same.
func TestOldCopyIsDroppedAfterARepetition(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, placed(), servertest.ForTest(t))
	b.run(t, nil)
	desk := b.attend(t)
	const id = "o-1"
	b.parkOne(t, id, message.After(8*time.Second))
	until(t, "promoted", func() bool { held, err := b.held(t, id); return err == nil && !held })
	if change, err := b.park.Reschedule(t.Context(), id, message.After(0)); err != nil || change.Outcome != redisbridge.OutcomeDone {
		t.Fatalf("rescheduled: %+v, %v", change, err)
	}
	until(t, "handled early", func() bool { return len(desk.times(id)) == 1 })
	again := b.parkOne(t, id, message.After(8*time.Second))
	until(t, "handled again", func() bool { return desk.due(id).Equal(again) })
	if n, dropped := len(desk.times(id)), desk.drops(id); n != 2 || dropped != 1 {
		t.Errorf("handled %d times and dropped %d times, want 2 and 1", n, dropped)
	}
}

// A message leads to two queues, of which one is full. That the consumer of the other one asks
// about its copy, and handles it, must not keep the message from the full one.
func TestHandledInOneQueueComesToTheOther(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	desk := b.attend(t)
	ch := b.confirming(t)
	const full = "full"
	if _, err := ch.QueueDeclare(full, true, false, false, false, amqp.Table{"x-max-length": int64(1), "x-overflow": "reject-publish"}); err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind(full, "order.#", b.topology.ReadyExchange(), false, nil); err != nil {
		t.Fatal(err)
	}
	fills, err := ch.PublishWithDeferredConfirm("", full, true, false, amqp.Publishing{})
	if err != nil || !fills.Wait() {
		t.Fatalf("the queue is not filled: %v", err)
	}
	b.run(t, nil)
	due := b.parkOne(t, "m", message.After(300*time.Millisecond)) // no lane is so short
	until(t, "it is handled, again and again", func() bool { return len(desk.times("m")) > 2 })
	e := b.lookUp(t, "m")
	if e.State != redisbridge.StateDelivered || !e.Due.Equal(due) || e.Path != wire.ReadyPath {
		t.Errorf("looked up: %+v", e)
	}
	b.changed(t, redisbridge.OutcomeDelivered, 1)(b.park.Cancel(t.Context(), "m"))
	b.parkOne(t, "m", message.After(time.Hour)) // which is another message, and must not displace it
	if _, err := ch.QueuePurge(full, false); err != nil {
		t.Fatal(err)
	}
	until(t, "it comes to the other queue", func() bool {
		d, there, err := ch.Get(full, true)
		if err != nil {
			t.Fatal(err)
		}
		return there && d.MessageId == "m" && string(d.Body) == "m"
	})
	reportWhen(t, b.park, "it is settled", func(r redisbridge.BridgeStats) bool { return r.Settled == 1 })
	all, err := b.park.GetAll(t.Context(), "m")
	if err != nil || len(all) != 2 || all[0].State != redisbridge.StateDelivered || all[0].Path != wire.ReadyPath {
		t.Errorf("looked up: %+v, %v; want that it stays delivered", all, err)
	}
}
