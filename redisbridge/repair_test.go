package redisbridge_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// Each entity is deleted while messages are parked, and published by foreign
// clients. What Redis or the broker has acknowledged arrives.
func TestWhatIsDeletedIsPutBack(t *testing.T) {
	t.Parallel()
	queue := func(name func(*topology.Topology) string) func(*bench) string {
		return func(b *bench) string { return "/api/queues/" + b.VHost + "/" + name(b.topology) }
	}
	exchange := func(name func(*topology.Topology) string) func(*bench) string {
		return func(b *bench) string { return "/api/exchanges/" + b.VHost + "/" + name(b.topology) }
	}
	lane := func(t *topology.Topology) string { return t.Lane(time.Second, 0) }
	tier := func(t *topology.Topology) string { return t.Tiers()[1].Name }
	for name, path := range map[string]func(*bench) string{
		"lane queue":          queue(lane),
		"lane exchange":       exchange(lane),
		"tier exchange":       exchange(tier),
		"inbox queue":         queue((*topology.Topology).Inbox),
		"inbox exchange":      exchange((*topology.Topology).Inbox),
		"ready exchange":      exchange((*topology.Topology).ReadyExchange),
		"unrouted queue":      queue((*topology.Topology).Unrouted),
		"unrouted exchange":   exchange((*topology.Topology).Unrouted),
		"quarantine exchange": exchange((*topology.Topology).Quarantine),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, short())
			b.run(t, repairOften)
			due := &dueTimes{at: map[string]time.Time{}}
			traffic := b.startTraffic(t, due)
			due.await(t, 20)
			if strings.HasPrefix(path(b), "/api/queues/") { // what is in a queue goes with it
				traffic()
				b.nothingLost(t, due)
				for i, delay := range []time.Duration{1500, 2000, 3000} {
					id := fmt.Sprintf("waiting-%d", i)
					due.note(id, b.parkOne(t, id, message.After(delay*time.Millisecond)))
				}
			}
			b.delete(t, path(b))
			again := b.startTraffic(t, due)
			b.awaitComplete(t)
			b.rebind(t)
			due.await(t, due.count()+20)
			traffic()
			again()
			b.nothingLost(t, due)
		})
	}
}

func TestDeletedBindingIsMadeAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.run(t, repairOften)
	ch := b.channel(t)
	tier := b.topology.Tiers()[1]
	binding := amqp.Table{"x-match": "all-with-x", "x-delay": tier.TTL.Milliseconds()}
	if err := ch.ExchangeUnbind(tier.Name, "", b.topology.EntryExchange(), false, binding); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; {
		b.publishEntry(t, amqp.Publishing{MessageId: "m", Headers: amqp.Table{"x-delay": tier.TTL.Milliseconds()}})
		if n, err := ch.QueueDeclarePassive(tier.Name, true, false, false, false, nil); err != nil {
			t.Fatal(err)
		} else if n.Messages > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing enters %s within %v", tier.Name, patience)
		}
	}
}

// Without the alternate exchange, the broker would confirm and drop what nobody
// has bound.
func TestUnboundMessageOutlastsTheUnroutedQueue(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	ch := b.channel(t)
	if err := ch.QueueUnbind(queueName, "#", b.topology.ReadyExchange(), nil); err != nil {
		t.Fatal(err)
	}
	var parked sync.Once
	b.run(t, func(c *redisbridge.Config) {
		c.RepairEvery = time.Hour // what is missing is noticed by publishing
		c.Observe = func(step redisbridge.Step, _ string, _ message.Path) {
			if step == redisbridge.StepClaimed {
				parked.Do(func() { b.delete(t, "/api/queues/"+b.VHost+"/"+b.topology.Unrouted()) })
			}
		}
	})
	b.parkOne(t, "unbound", message.After(300*time.Millisecond))
	for deadline := time.Now().Add(patience); ; {
		d, ok, err := b.channel(t).Get(b.topology.Unrouted(), true) // an error while there is no such queue
		if ok && d.MessageId == "unbound" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not in %s within %v: %v", b.topology.Unrouted(), patience, err)
		}
	}
}

// A message that was put back has nobody else to wake the shard for it.
func TestRefusedMessageIsTriedAgainSoon(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	var claimed sync.Once
	b.run(t, func(c *redisbridge.Config) {
		c.Lease = 2 * patience // half of which a shard with work in hand sleeps at most
		c.Observe = func(step redisbridge.Step, id string, _ message.Path) {
			if step == redisbridge.StepClaimed {
				lane := b.topology.Lane(time.Second, redisbridge.ShardIn(b.topology, id))
				claimed.Do(func() { b.delete(t, "/api/queues/"+b.VHost+"/"+lane) })
			}
		}
	})
	due := b.parkOne(t, "m", message.After(1500*time.Millisecond))
	got := b.arrivals.await(t, 1, patience)["m"][0]
	if late := got.at.Sub(due); late < 0 || late > patience/2 {
		t.Errorf("%v late", late)
	}
}

func TestMissingTopologyIsPutInPlace(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	other := short()
	other.Prefix = b.Prefix + "-other"
	top, err := topology.New(other)
	if err != nil {
		t.Fatal(err)
	}
	b.topology = top
	log := newLogCapture()
	b.run(t, func(c *redisbridge.Config) { c.Logger = log.logger() })
	b.awaitComplete(t)
	log.await(t, "put back what was missing")
}

// A queue with other arguments is not touched, is reported once, and does not
// keep the rest from being put back.
func TestOtherArgumentsAreReportedOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	ch, lane := b.channel(t), b.topology.Lane(2*time.Second, 1)
	if _, err := ch.QueueDelete(lane, false, false, false); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare(lane, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	log := newLogCapture()
	b.run(t, func(c *redisbridge.Config) {
		repairOften(c)
		c.Logger = log.logger()
	})
	log.await(t, "queue "+lane+" exists with")
	for range 2 { // repairs after the report
		b.delete(t, "/api/queues/"+b.VHost+"/"+b.topology.Quarantine())
		b.awaitComplete(t)
	}
	if n := log.count("queue " + lane + " exists with"); n != 1 {
		t.Errorf("the mismatch was logged %d times, want once", n)
	}
	due := b.parkOne(t, "m", message.After(1300*time.Millisecond))
	if got := b.arrivals.await(t, 1, patience)["m"][0]; got.at.Before(due) {
		t.Errorf("%v early", due.Sub(got.at))
	}
}

// A bridge whose user may not configure says what it lacks, once, goes round a
// deleted lane, and waits for a deleted inbox, with the remedy in its log.
func TestUserWhoMayNotConfigure(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	ch := b.channel(t)
	for shard := range b.topology.Shards() {
		if _, err := ch.QueueDelete(b.topology.Lane(time.Second, shard), false, false, false); err != nil {
			t.Fatal(err)
		}
	}
	log := newLogCapture()
	bridge, err := redisbridge.New(redisbridge.Config{
		Client: b.client, AMQPURL: b.userWithoutConfigure(t), Topology: b.topology, RepairEvery: time.Second, Logger: log.logger(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- bridge.Run(ctx) }()
	defer cancel()
	due := b.parkOne(t, "m", message.After(1500*time.Millisecond))
	got := b.arrivals.await(t, 1, patience)["m"][0]
	if got.at.Before(due) || got.Journey.Path == message.Path("parked, then lane 1s") {
		t.Errorf("arrived %v after its due time by path %q", got.at.Sub(due), got.Journey.Path)
	}
	log.await(t, "no configure permission")
	if n := log.count("no configure permission"); n != 1 {
		t.Errorf("the missing permission was logged %d times, want once", n)
	}
	b.delete(t, "/api/queues/"+b.VHost+"/"+b.topology.Inbox())
	for deadline := time.Now().Add(patience); log.count("intake interrupted") == 0 || log.count("delaybridge topology apply") == 0; pauseShortly() {
		if time.Now().After(deadline) {
			t.Fatal("the log does not say that the inbox is missing, and what to do")
		}
	}
	if _, err := b.topology.Apply(t.Context(), b.dial(t)); err != nil {
		t.Fatal(err)
	}
	b.publishEntry(t, amqp.Publishing{
		MessageId: "n", DeliveryMode: amqp.Persistent, Headers: amqp.Table{wire.HeaderDelay: int64(1300)},
	})
	if got := b.arrivals.await(t, 2, patience)["n"]; len(got) != 1 {
		t.Errorf("n arrived %d times after the inbox was back, want once", len(got))
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the bridge ended with %v", err)
	}
}

// At its first start such a bridge ends over a missing inbox, with the remedy.
func TestFirstStartWithoutTopologyAndPermission(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.delete(t, "/api/queues/"+b.VHost+"/"+b.topology.Inbox())
	bridge, err := redisbridge.New(redisbridge.Config{Client: b.client, AMQPURL: b.userWithoutConfigure(t), Topology: b.topology})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := bridge.Run(ctx); !errors.Is(err, broker.ErrMissing) || !strings.Contains(err.Error(), "delaybridge topology apply") {
		t.Errorf("the bridge ended with %v, want ErrMissing and the remedy", err)
	}
}

// brokenPause is how long a message waits over which the broker has closed the
// channel.
const brokenPause = time.Minute

func repairOften(c *redisbridge.Config) { c.RepairEvery = time.Second }

func (b *bench) channel(t *testing.T) *amqp.Channel {
	t.Helper()
	ch, err := b.dial(t).Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

// delete removes an entity as an operator does.
func (b *bench) delete(t *testing.T, path string) {
	t.Helper()
	b.Manage(t, http.MethodDelete, path, "")
}

// awaitComplete returns when every queue and exchange is there.
func (b *bench) awaitComplete(t *testing.T) {
	t.Helper()
	conn := b.dial(t)
	for _, q := range b.topology.Queues() {
		b.awaitThere(t, conn, func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclarePassive(q.Name, true, false, false, false, nil)
			return err
		})
	}
	for _, x := range b.topology.Exchanges() {
		b.awaitThere(t, conn, func(ch *amqp.Channel) error {
			return ch.ExchangeDeclarePassive(x.Name, x.Kind, true, false, false, false, nil)
		})
	}
}

func (b *bench) awaitThere(t *testing.T, conn *amqp.Connection, find func(*amqp.Channel) error) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; pauseShortly() {
		ch, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		err = find(ch)
		_ = ch.Close() // the broker has closed it if there was an error
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// rebind does what consumers do: a binding goes with its exchange.
func (b *bench) rebind(t *testing.T) {
	t.Helper()
	if err := b.channel(t).QueueBind(queueName, "#", b.topology.ReadyExchange(), false, nil); err != nil {
		t.Fatal(err)
	}
}

// dueTimes are those of the messages that were acknowledged.
type dueTimes struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (d *dueTimes) note(id string, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at[id] = at
}

func (d *dueTimes) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.at)
}

func (d *dueTimes) await(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(patience); d.count() < n; pauseShortly() {
		if time.Now().After(deadline) {
			t.Fatalf("%d messages acknowledged within %v, want %d", d.count(), patience, n)
		}
	}
}

func pauseShortly() { <-time.After(10 * time.Millisecond) }

// startTraffic parks and publishes, as the producer and as foreign clients do,
// until stop is called.
func (b *bench) startTraffic(t *testing.T, due *dueTimes) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	run := due.count()
	var senders sync.WaitGroup
	senders.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			id := fmt.Sprintf("parked-%d-%d", run, i)
			delay := []time.Duration{200, 700, 1300, 2200, 3000}[i%5] * time.Millisecond
			ticket, err := b.park.Park(ctx, &message.Message{ID: id, RoutingKey: "order.unpaid"}, message.After(delay))
			if err == nil && ticket.Parking == message.Parked { // overdue where a busy machine took longer than the delay
				due.note(id, ticket.Due)
			}
			pauseShortly()
		}
	})
	conn := b.dial(t)
	senders.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			id := fmt.Sprintf("foreign-%d-%d", run, i)
			delay := []int64{0, 1000, 1234}[i%3]
			before := time.Now()
			if b.publishMandatory(conn, id, delay) {
				due.note(id, before.Add(time.Duration(delay)*time.Millisecond).Truncate(time.Millisecond))
			}
			pauseShortly()
		}
	})
	return func() {
		cancel()
		senders.Wait()
	}
}

// publishMandatory reports whether the broker has confirmed, and not returned,
// a message to the entry exchange.
func (b *bench) publishMandatory(conn *amqp.Connection, id string, delayMS int64) bool {
	ch, err := conn.Channel()
	if err != nil {
		return false
	}
	defer func() { _ = ch.Close() }()
	returned := ch.NotifyReturn(make(chan amqp.Return, 1))
	if ch.Confirm(false) != nil {
		return false
	}
	confirm, err := ch.PublishWithDeferredConfirm(b.topology.EntryExchange(), "order.unpaid", true, false, amqp.Publishing{
		MessageId: id, DeliveryMode: amqp.Persistent, Headers: amqp.Table{"x-delay": delayMS},
	})
	if err != nil || !confirm.Wait() {
		return false
	}
	select {
	case <-returned: // before the confirm
		return false
	default:
		return true
	}
}

// nothingLost waits for what was acknowledged, in the bound queue or, from
// while it was not bound, in the unrouted one.
func (b *bench) nothingLost(t *testing.T, due *dueTimes) {
	t.Helper()
	unrouted, err := b.channel(t).Consume(b.topology.Unrouted(), "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := map[string]bool{}
	deadline := time.After(patience)
	for {
		lost := due.missing(b.arrivals, elsewhere)
		if len(lost) == 0 {
			break
		}
		select {
		case d, ok := <-unrouted:
			if !ok {
				t.Fatal("the consumer of the unrouted queue was cancelled")
			}
			elsewhere[d.MessageId] = true
		case <-b.arrivals.changed:
		case <-deadline:
			t.Fatalf("%d of %d messages did not arrive within %v: %v", len(lost), due.count(), patience, lost[:min(len(lost), 10)])
		}
	}
	b.arrivals.mu.Lock()
	defer b.arrivals.mu.Unlock()
	for id, list := range b.arrivals.byID {
		at, ok := due.at[id]
		switch late := list[0].at.Sub(at); {
		case !ok:
		case late < 0:
			t.Errorf("%s arrived %v early", id, -late)
		case late > brokenPause/2:
			t.Errorf("%s arrived %v late: it was held up as if the broker had objected to it", id, late)
		}
	}
}

func (d *dueTimes) missing(a *arrivals, elsewhere map[string]bool) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	var missing []string
	for id := range d.at {
		if len(a.byID[id]) == 0 && !elsewhere[id] {
			missing = append(missing, id)
		}
	}
	slices.Sort(missing)
	return missing
}

// userWithoutConfigure returns the AMQP URL of a user who may do what a bridge
// does that puts nothing back.
func (b *bench) userWithoutConfigure(t *testing.T) string {
	t.Helper()
	name := b.Prefix + "-user"
	b.Manage(t, http.MethodPut, "/api/users/"+name, `{"password":"secret","tags":""}`)
	t.Cleanup(func() { b.Manage(t, http.MethodDelete, "/api/users/"+name, "") })
	b.Manage(t, http.MethodPut, "/api/permissions/"+b.VHost+"/"+name,
		fmt.Sprintf(`{"configure":"","write":"^%s\\.","read":"^%s\\.inbox$"}`, b.Prefix, b.Prefix))
	u, err := url.Parse(b.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, "secret")
	return u.String()
}
