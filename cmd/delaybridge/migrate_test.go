package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/servers/rabbitmq"
)

// publisher publishes confirmed, some hundred times a second at most, until it is stopped, and knows
// what was.
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
		<-time.After(5 * time.Millisecond) // or the broker does nothing else
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
	ch := l.channel(t)
	for i := range 200 { // so that binding takes a while
		if err := ch.QueueBind("unpaid", fmt.Sprintf("order.other.%d", i), "orders", false, nil); err != nil {
			t.Fatal(err)
		}
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
		run(interrupted, []string{"migrate", "--apply"}, cli.Streams{Out: io.Discard, Err: io.Discard}, l.lookupEnv)
		cancel()
	}
	l.migrate(t, "--apply")
	for _, p := range publishers {
		from := p.count()
		awaitThat(t, "more confirms of "+p.exchange, func() bool { return p.count() >= from+20 })
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
	for range 3 {
		l.publish(t, "orders", "order.unpaid", amqp.Table{"x-delay": int64(time.Hour / time.Millisecond)})
	}
	before := l.everything(t)
	plan := l.migrate(t)
	if after := l.everything(t); after != before {
		t.Errorf("the plan has changed something: %s\nwas %s", after, before)
	}
	for _, m := range plan.Exchanges {
		delayed := map[string]int64{"orders": 3, "shops": 0}[m.Exchange]
		if m.State != "create" || m.Delayed == nil || *m.Delayed != delayed {
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
		if _, err := rabbitmq.Manage(t.Context(), l.server.ManagementURL(), m[1], m[2], m[3]); err != nil {
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
