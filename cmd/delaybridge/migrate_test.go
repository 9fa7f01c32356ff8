package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/migration"
	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

//go:embed testdata/x-delayed-message.erl
var standIn string

// pluginLab is a RabbitMQ of its own with a stand-in for the retired plugin,
// which nobody can install any more. So the management API shows what it did,
// and the old exchanges route. On 4.3, where the plugin itself cannot run, the
// stand-in can, but for the type topic, which routes by the name of its own type.
type pluginLab struct {
	server *servers.RabbitMQ
	conn   *amqp.Connection
	env    map[string]string
}

func newPluginLab(t *testing.T) *pluginLab {
	t.Helper()
	l := &pluginLab{server: servertest.RabbitMQForTest(t)}
	if _, err := l.server.Control(t.Context(), "eval", `
		{ok, Tokens, _} = erl_scan:string(`+strconv.Quote(standIn)+`),
		Split = fun
			F([], _, Forms) -> lists:reverse(Forms);
			F([{dot, _} = Dot | Rest], Form, Forms) -> F(Rest, [], [lists:reverse([Dot | Form]) | Forms]);
			F([Token | Rest], Form, Forms) -> F(Rest, [Token | Form], Forms)
		end,
		Forms = [begin {ok, Form} = erl_parse:parse_form(F), Form end || F <- Split(Tokens, [], [])],
		{ok, Module, Binary} = compile:forms(Forms),
		rpc:multicall(code, load_binary, [Module, "stand-in", Binary]),
		rpc:multicall(rabbit_registry, register, [exchange, <<"x-delayed-message">>, Module]).`); err != nil {
		t.Fatal(err)
	}
	conn, err := amqp.Dial(l.server.AMQPURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	l.conn = conn
	l.env = map[string]string{
		"DELAYBRIDGE_AMQP_URL": l.server.AMQPURL(), "DELAYBRIDGE_MANAGEMENT_URL": l.server.ManagementURL(),
		"DELAYBRIDGE_TIERS": "1s,30s", "DELAYBRIDGE_LEAD": "1s", "DELAYBRIDGE_SHARDS": "1",
	}
	return l
}

func (l *pluginLab) channel(t *testing.T) *amqp.Channel {
	t.Helper()
	ch, err := l.conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func (l *pluginLab) exchange(t *testing.T, name, kind string) {
	t.Helper()
	if err := l.channel(t).ExchangeDeclare(name, migration.PluginType, true, false, false, false, amqp.Table{"x-delayed-type": kind}); err != nil {
		t.Fatal(err)
	}
}

// queue declares a quorum queue that is bound to exchange.
func (l *pluginLab) queue(t *testing.T, name, exchange, key string, args amqp.Table) {
	t.Helper()
	ch := l.channel(t)
	if _, err := ch.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind(name, key, exchange, false, args); err != nil {
		t.Fatal(err)
	}
}

// migrate runs the command in this process, and returns the plan it prints.
func (l *pluginLab) migrate(t *testing.T, args ...string) migration.Plan {
	t.Helper()
	code, stdout, stderr := runIn(t, l.env, append([]string{"migrate", "-o", "json"}, args...)...)
	if code != exitOK {
		t.Fatalf("migrate %v: exit code %d: %s", args, code, stderr)
	}
	var plan migration.Plan
	if err := json.Unmarshal([]byte(stdout), &plan); err != nil {
		t.Fatal(err)
	}
	return plan
}

// everything is what the broker has, apart from statistics.
func (l *pluginLab) everything(t *testing.T) string {
	t.Helper()
	answer, err := servers.Manage(t.Context(), l.server.ManagementURL(), http.MethodGet, "/api/definitions", "")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string][]any
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(answer, &raw); err != nil {
		t.Fatal(err)
	}
	all = map[string][]any{}
	for _, kind := range []string{"exchanges", "queues", "bindings"} {
		var list []any
		if err := json.Unmarshal(raw[kind], &list); err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(list, func(a, b any) int {
			x, y := fmt.Sprint(a), fmt.Sprint(b)
			switch {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		})
		all[kind] = list
	}
	return fmt.Sprint(all)
}

// publisher publishes confirmed, as fast as it is confirmed, until it is stopped,
// and knows what was.
type publisher struct {
	exchange, key string
	headers       amqp.Table
	prefix        string

	mu        sync.Mutex
	confirmed []string
	err       error
}

// run publishes until ctx is over. While the exchange is not there, it waits.
func (p *publisher) run(ctx context.Context, conn *amqp.Connection) {
	var ch *amqp.Channel
	for n := 0; ctx.Err() == nil; n++ {
		if ch == nil || ch.IsClosed() {
			var err error
			if ch, err = conn.Channel(); err == nil {
				err = ch.Confirm(false)
			}
			if err != nil {
				p.err = err
				return
			}
		}
		id := fmt.Sprintf("%s-%d", p.prefix, n)
		c, err := ch.PublishWithDeferredConfirmWithContext(ctx, p.exchange, p.key, false, false,
			amqp.Publishing{MessageId: id, DeliveryMode: amqp.Persistent, Headers: p.headers})
		if err != nil {
			continue // the channel was closed: no such exchange
		}
		// The wait outlives ctx: what is confirmed after that counts, too.
		if c.Wait() {
			p.mu.Lock()
			p.confirmed = append(p.confirmed, id)
			p.mu.Unlock()
		}
	}
}

func (p *publisher) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.confirmed)
}

// While the migration runs, is interrupted and goes on, everything that is
// published to the old and to the new name arrives where it should, by the
// broker alone.
func TestMigrationLosesNothing(t *testing.T) {
	t.Parallel()
	l := newPluginLab(t)
	l.exchange(t, "orders", "direct")
	l.exchange(t, "audit log", "fanout")
	l.queue(t, "unpaid", "orders", "order.unpaid", nil)
	l.queue(t, "log", "audit log", "", nil)
	for i := range 200 { // so that binding takes a while
		l.queue(t, "unpaid", "orders", fmt.Sprintf("order.other.%d", i), nil)
	}
	publishers := []*publisher{
		{exchange: "orders", key: "order.unpaid", headers: amqp.Table{"x-delay": int64(1000)}, prefix: "old"},
		{exchange: "delaybridge.entry.orders", key: "order.unpaid", headers: amqp.Table{"x-delay": int64(0)}, prefix: "new-0"},
		{exchange: "delaybridge.entry.orders", key: "order.unpaid", headers: amqp.Table{"x-delay": int64(1000)}, prefix: "new-1000"},
		{exchange: "delaybridge.entry.audit-log", headers: amqp.Table{"x-delay": int64(0)}, prefix: "audit"},
	}
	publishing, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, p := range publishers {
		running.Go(func() { p.run(publishing, l.conn) })
	}
	for _, after := range []time.Duration{30 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond} {
		interrupted, cancel := context.WithTimeout(t.Context(), after)
		run(interrupted, []string{"migrate", "--apply"}, streams{out: io.Discard, err: io.Discard}, l.lookupEnv)
		cancel()
	}
	l.migrate(t, "--apply")
	for _, p := range publishers {
		from := p.count()
		awaitThat(t, fmt.Sprintf("more confirms of %s", p.exchange), func() bool { return p.count() >= from+20 })
	}
	stop()
	running.Wait()

	missing := map[string]bool{}
	for _, p := range publishers {
		if p.err != nil {
			t.Fatal(p.err)
		}
		for _, id := range p.confirmed {
			missing[id] = true
		}
	}
	// A new name may have a message in the inbox: one that came before the
	// entry exchange was bound to its tiers. A bridge takes it on from there.
	ch := l.channel(t)
	awaitThat(t, "every confirmed message", func() bool {
		for _, queue := range []string{"unpaid", "log", "delaybridge.inbox"} {
			for {
				d, ok, err := ch.Get(queue, true)
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				delete(missing, d.MessageId)
			}
		}
		d, ok, err := ch.Get("delaybridge.unrouted", true)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			t.Fatalf("%s went to unrouted", d.MessageId)
		}
		return len(missing) == 0
	})
}

func (l *pluginLab) lookupEnv(name string) (string, bool) {
	value, ok := l.env[name]
	return value, ok
}

// awaitThat waits for a state.
func awaitThat(t *testing.T, what string, reached func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for !reached() {
		select {
		case <-deadline:
			t.Fatalf("%s: not within a minute", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// The plan comes from the broker, changes nothing, and is done once.
func TestMigrationOfWhatTheBrokerHas(t *testing.T) {
	t.Parallel()
	l := newPluginLab(t)
	l.exchange(t, "orders", "direct")
	l.exchange(t, "shops", "headers")
	l.queue(t, "unpaid", "orders", "order.unpaid", nil)
	l.queue(t, "seven", "shops", "", amqp.Table{"x-match": "all", "shop": int32(7), "factor": 1.5, "urgent": true})
	exclusive, err := l.channel(t).QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.channel(t).QueueBind(exclusive.Name, "order.paid", "orders", false, nil); err != nil {
		t.Fatal(err)
	}
	before := l.everything(t)
	plan := l.migrate(t)
	if after := l.everything(t); after != before {
		t.Errorf("the plan has changed something: %s\nwas %s", after, before)
	}
	for _, m := range plan.Exchanges {
		if m.State != "create" || m.Delayed == nil || *m.Delayed != 3 { // so says the stand-in
			t.Errorf("planned %+v", m)
		}
	}
	if len(plan.Bindings) != 2 || len(plan.Findings) != 1 || len(plan.Unseen) != 0 {
		t.Errorf("planned %+v", plan)
	}

	for _, state := range []string{"created", "exists"} {
		plan = l.migrate(t, "--apply")
		for _, m := range plan.Exchanges {
			if m.State != state {
				t.Errorf("%s is %s, want %s", m.EntryExchange, m.State, state)
			}
		}
		for _, b := range plan.Bindings {
			if b.State != state {
				t.Errorf("%s -> %s is %s, want %s", b.Source, b.Destination, b.State, state)
			}
		}
		if after := l.everything(t); state == "exists" && after != before {
			t.Errorf("the second run has changed something: %s\nwas %s", after, before)
		}
		before = l.everything(t)
	}
	if plan.Setting != "orders=direct,shops=headers" {
		t.Errorf("entries %s", plan.Setting)
	}
	l.publish(t, "delaybridge.entry.shops", "", amqp.Table{"x-delay": int64(1000), "shop": int64(7), "factor": 1.5, "urgent": true})
	l.only(t, "seven")
	l.publish(t, "delaybridge.entry.orders", "order.unpaid", amqp.Table{"x-delay": int64(1000)})
	l.only(t, "unpaid")
}

// The commands that a finding gives do what it says.
func TestCommandsForABindingIntoTheOldExchange(t *testing.T) {
	t.Parallel()
	const key = "order/unpaid #~1" // to be escaped
	l := newPluginLab(t)
	l.exchange(t, "orders", "direct")
	l.queue(t, "unpaid", "orders", key, nil)
	ch := l.channel(t)
	if err := ch.ExchangeDeclare("shop", amqp.ExchangeDirect, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.ExchangeBind("orders", key, "shop", false, nil); err != nil {
		t.Fatal(err)
	}
	plan := l.migrate(t, "--apply")
	if len(plan.Findings) != 1 || len(plan.Findings[0].Commands) != 3 {
		t.Fatalf("findings %+v, want one with three commands", plan.Findings)
	}
	curl := regexp.MustCompile(`^curl -u USER .*-X (\w+) '?http://[^/]+(/[^' ]+)'?(?: -d '(.*)')?$`)
	for _, command := range plan.Findings[0].Commands {
		m := curl.FindStringSubmatch(command)
		if m == nil {
			t.Fatalf("cannot read %s", command)
		}
		if _, err := servers.Manage(t.Context(), l.server.ManagementURL(), m[1], m[2], m[3]); err != nil {
			t.Fatal(err)
		}
		for _, delay := range []int64{0, 1000} {
			l.publish(t, "shop", key, amqp.Table{"x-delay": delay})
			// At once, both ways are one to the broker, which delivers once to a queue.
			if delay > 0 && m[1] == http.MethodPost && m[2] != "/api/bindings/%2F/e/delaybridge.ready/e/delaybridge.ready.orders" {
				l.await(t, "unpaid") // once by the old exchange, once by the new
			}
			l.only(t, "unpaid")
		}
	}
	if left := l.migrate(t).Findings; len(left) != 0 {
		t.Errorf("still found: %+v", left)
	}
}

func (l *pluginLab) publish(t *testing.T, exchange, key string, headers amqp.Table) {
	t.Helper()
	ch := l.channel(t)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	c, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), exchange, key, false, false,
		amqp.Publishing{DeliveryMode: amqp.Persistent, Headers: maps.Clone(headers)})
	if err != nil || !c.Wait() {
		t.Fatalf("publish to %s: %v", exchange, err)
	}
}

// await takes a message out of a queue.
func (l *pluginLab) await(t *testing.T, queue string) {
	t.Helper()
	ch := l.channel(t)
	awaitThat(t, "a message in "+queue, func() bool {
		_, ok, err := ch.Get(queue, true)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	})
}

// only takes a message out of a queue, and expects no other one anywhere.
func (l *pluginLab) only(t *testing.T, queue string) {
	t.Helper()
	l.await(t, queue)
	ch := l.channel(t)
	for _, other := range []string{queue, "delaybridge.unrouted", "delaybridge.inbox", "delaybridge.quarantine", "delaybridge.tier.1s"} {
		d, ok, err := ch.Get(other, true)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			t.Errorf("another message in %s: %v", other, d.Headers)
		}
	}
}
