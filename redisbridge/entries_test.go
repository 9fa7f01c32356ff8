package redisbridge_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
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

// entryKinds returns the entries of these tests, each named after its type; "" is
// the default one.
func entryKinds() []string {
	return []string{"", amqp.ExchangeDirect, amqp.ExchangeTopic, amqp.ExchangeFanout, amqp.ExchangeHeaders}
}

func withEntries(c topology.Config, names ...string) topology.Config {
	for _, kind := range names {
		if kind != "" {
			c.Entries = append(c.Entries, topology.Entry{Name: kind, Kind: kind})
		}
	}
	return c
}

// outlets hear each ready exchange through a queue of its own.
type outlets struct {
	mu   sync.Mutex
	byID map[string][]outcome
}

// outcome is where a message came out.
type outcome struct {
	entry string // of the ready exchange
	message.Message
}

const entryKey = "order.unpaid"

// hear binds a queue to the ready exchange of each entry, by a binding that suits
// its type and the messages of say.
func (o *outlets) hear(t *testing.T, b *bench, top *topology.Topology, entries ...string) {
	t.Helper()
	ch := b.channel(t)
	for _, entry := range entries {
		binding := map[string]struct {
			key  string
			args amqp.Table
		}{
			"": {key: "#"}, amqp.ExchangeDirect: {key: entryKey}, amqp.ExchangeTopic: {key: "*.unpaid"},
			amqp.ExchangeHeaders: {args: amqp.Table{"x-match": "all", "shop": int64(7)}},
		}[entry]
		queue := "outlet-" + entry
		if _, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
			t.Fatal(err)
		}
		if err := ch.QueueBind(queue, binding.key, top.ReadyExchangeOf(entry), false, binding.args); err != nil {
			t.Fatal(err)
		}
		o.listen(t, b, queue, entry)
	}
}

// listen takes what comes into a queue as come out of entry's ready exchange.
func (o *outlets) listen(t *testing.T, b *bench, queue, entry string) {
	t.Helper()
	deliveries, err := b.channel(t).Consume(queue, "", true, true, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for d := range deliveries {
			o.mu.Lock()
			o.byID[d.MessageId] = append(o.byID[d.MessageId], outcome{entry, b.topology.Message(&d)})
			o.mu.Unlock()
		}
	}()
}

func (o *outlets) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.byID)
}

func (o *outlets) await(t *testing.T, n int) {
	t.Helper()
	defer func() {
		if t.Failed() {
			o.mu.Lock()
			defer o.mu.Unlock()
			t.Logf("came: %q", slices.Sorted(maps.Keys(o.byID)))
		}
	}()
	until(t, fmt.Sprintf("%d messages", n), func() bool { return o.count() >= n })
}

// check finds each message out of its own entry's ready exchange, once, as it
// was sent. want has the entry of each ID.
func (o *outlets) check(t *testing.T, want map[string]string) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, entry := range want {
		came := o.byID[id]
		if len(came) != 1 {
			t.Errorf("%s came out %d times, want once", id, len(came))
			continue
		}
		got := came[0]
		if got.entry != entry || got.RoutingKey != entryKey || string(got.Body) != id ||
			got.Headers["shop"] != int64(7) || got.CorrelationID != "c-"+id {
			t.Errorf("%s came out of %q with key %q, body %q, headers %v; want %q", id, got.entry, got.RoutingKey, got.Body, got.Headers, entry)
		}
		// What the broker alone has handled says nothing, or what a client made up.
		if got.Journey.Path != "" && got.Entry != entry {
			t.Errorf("%s says that it is of entry %q, want %q", id, got.Entry, entry)
		}
	}
	if len(o.byID) != len(want) {
		t.Errorf("%d messages came out, want %d", len(o.byID), len(want))
	}
}

// say is what a foreign client publishes.
func say(id string, headers amqp.Table) amqp.Publishing {
	all := amqp.Table{"shop": int64(7)}
	maps.Copy(all, headers)
	return amqp.Publishing{MessageId: id, Body: []byte(id), CorrelationId: "c-" + id, Headers: all}
}

func TestEachEntryComesOutOfItsReadyExchange(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	store := servertest.RedisForTest(t)
	env.RedisURL = store.URL()
	b := newBenchAt(t, withEntries(short(), entryKinds()...), env)
	o := &outlets{byID: map[string][]outcome{}}
	o.hear(t, b, b.topology, entryKinds()...)
	want := map[string]string{}
	var batch []amqp.Publishing
	add := func(entry, path string, headers amqp.Table) {
		// That a client sends on what it was told of an earlier journey changes nothing.
		for _, stale := range []bool{false, true} {
			p := say(fmt.Sprintf("%q %s, stale %v", entry, path, stale), headers)
			if stale {
				p.Headers[wire.HeaderEntry] = amqp.ExchangeFanout
			}
			want[p.MessageId] = entry
			batch = append(batch, p)
		}
	}
	publish := func(entry string) {
		b.publishTo(t, b.topology.EntryExchangeOf(entry), batch...)
		batch = nil
	}
	park := func(entry, path string, delay time.Duration) {
		id := fmt.Sprintf("%q %s", entry, path)
		want[id] = entry
		b.parkThis(t, &message.Message{
			ID: id, Entry: entry, RoutingKey: entryKey, Body: []byte(id), CorrelationID: "c-" + id, Headers: amqp.Table{"shop": int64(7)},
		}, message.After(delay))
	}

	// No bridge, and soon no Redis.
	for _, entry := range entryKinds() {
		park(entry, "parked, and overdue", 100*time.Millisecond)
	}
	if err := store.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	alone := 0
	for _, entry := range entryKinds() {
		add(entry, "in the inbox, and overdue", amqp.Table{wire.HeaderDeliverAt: time.Now().Add(100 * time.Millisecond).UnixMilli()})
		add(entry, "tier", amqp.Table{wire.HeaderDelay: int32(1000)})
		add(entry, "at once", amqp.Table{wire.HeaderDelay: int32(0)})
		publish(entry)
		alone += 4
	}
	o.await(t, alone)

	if err := store.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.run(t, nil)
	for _, entry := range entryKinds() {
		add(entry, "lane of 500ms", amqp.Table{wire.HeaderDelay: int32(900)})
		add(entry, "lane of 2s", amqp.Table{wire.HeaderDelay: int64(3100)})
		add(entry, "parked, then ready", amqp.Table{wire.HeaderDelay: "300"})
		add(entry, "no delay", nil)
		add(entry, "in the past", amqp.Table{wire.HeaderDeliverAt: int64(5000)})
		add(entry, "negative", amqp.Table{wire.HeaderDelay: int32(-1)})
		add(entry, "tier beside a bridge", amqp.Table{wire.HeaderDelay: int32(500)})
		publish(entry)
		park(entry, "parked by the producer", 1700*time.Millisecond)
	}
	o.await(t, len(want))
	o.check(t, want)
	for _, q := range b.topology.Queues() {
		d, ok, err := b.channel(t).Get(q.Name, true)
		if err != nil || ok && q.Name != b.topology.Installation() {
			t.Errorf("%s holds %s (%v)", q.Name, d.MessageId, err)
		}
	}
}

// eachDelay is n messages of each path, noted in ids.
func eachDelay(name, entry string, n int, ids map[string]string) []amqp.Publishing {
	var all []amqp.Publishing
	for i := range n {
		for _, delay := range []int64{0, 300, 1000, 1700, 2000, 2600} {
			p := say(fmt.Sprintf("%s %q %d-%d", name, entry, delay, i), amqp.Table{wire.HeaderDelay: delay})
			ids[p.MessageId] = entry
			all = append(all, p)
		}
	}
	return all
}

// An entry is added while messages are under way. The bridge knows nothing of it,
// and needs no restart.
func TestEntryIsAddedToWhatIsRunning(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, withEntries(short(), amqp.ExchangeDirect), servertest.ForTest(t))
	o := &outlets{byID: map[string][]outcome{}}
	o.hear(t, b, b.topology, "", amqp.ExchangeDirect)
	b.run(t, repairOften)
	want := map[string]string{}
	traffic := func(name string, entries ...string) {
		for _, entry := range entries {
			b.publishTo(t, b.topology.EntryExchangeOf(entry), eachDelay(name, entry, 20, want)...)
		}
	}
	traffic("before", "", amqp.ExchangeDirect)
	wider, err := topology.New(withEntries(topology.Config{
		Prefix: b.Prefix, Tiers: short().Tiers, Lead: short().Lead, Shards: short().Shards,
	}, amqp.ExchangeDirect, amqp.ExchangeFanout))
	if err != nil {
		t.Fatal(err)
	}
	changes, err := wider.Apply(t.Context(), b.dial(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		if !strings.Contains(c.Name, amqp.ExchangeFanout) {
			t.Errorf("adding an entry changes something else: %+v", c)
		}
	}
	o.hear(t, b, wider, amqp.ExchangeFanout)
	traffic("after", "", amqp.ExchangeDirect, amqp.ExchangeFanout)
	o.await(t, len(want))
	o.check(t, want)
}

// Messages of an entry that has no ready exchange wait for it. They hold nobody
// up, and cost nobody a second delivery.
func TestEntryWithoutItsReadyExchange(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, short(), servertest.ForTest(t))
	o := &outlets{byID: map[string][]outcome{}}
	o.hear(t, b, b.topology, "")
	log := newLogCapture()
	b.run(t, func(c *redisbridge.Config) {
		repairOften(c)
		c.Logger = log.logger()
	})
	// Of the entry there is only what leads into the inbox.
	const gone = amqp.ExchangeFanout
	args := amqp.Table{"alternate-exchange": b.topology.Inbox()}
	if err := b.channel(t).ExchangeDeclare(b.topology.EntryExchangeOf(gone), "headers", true, false, false, false, args); err != nil {
		t.Fatal(err)
	}
	waiting, passing := map[string]string{}, map[string]string{}
	for i := range 5 {
		for entry, ids := range map[string]map[string]string{gone: waiting, "": passing} {
			b.publishTo(t, b.topology.EntryExchangeOf(entry), eachDelay(strconv.Itoa(i), entry, 10, ids)...)
		}
	}
	o.await(t, len(passing))
	log.await(t, "missing: put the entry back")
	o.check(t, passing)
	if n := log.count("shard cannot be worked on") + log.count("stays in the inbox"); n > 0 {
		t.Errorf("the bridge stumbled %d times", n)
	}

	wider, err := topology.New(withEntries(topology.Config{
		Prefix: b.Prefix, Tiers: short().Tiers, Lead: short().Lead, Shards: short().Shards,
	}, gone))
	if err != nil {
		t.Fatal(err)
	}
	o.listen(t, b, wider.Unrouted(), gone) // the bridge may be faster than the next but one line
	if _, err := wider.Apply(t.Context(), b.dial(t)); err != nil {
		t.Fatal(err)
	}
	o.hear(t, b, wider, gone)
	o.await(t, len(passing)+len(waiting))
	maps.Copy(passing, waiting)
	o.check(t, passing)
}
