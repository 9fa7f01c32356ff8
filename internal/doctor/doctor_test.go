package doctor_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/doctor"
	"github.com/delaybridge/delaybridge/internal/roles"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// TestDoctor breaks installations, each in one way, sees the finding, mends it by the
// commands that the finding names where they can be carried out here, and sees it gone.
func TestDoctor(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for name, test := range map[string]func(*testing.T, *installation){
		"healthy": healthy, "missing": missing, "differs": differs, "leftover": leftover,
		"policies": policies, "foreign": foreignBinding, "consumed": consumed,
		"wide": tooWide, "narrow": tooNarrow, "nothing-seen": lacksTags, "writers": writers,
		"inbox": inbox, "unrouted": unrouted, "shovel": shovelled, "wedged": wedged, "refuses": refuses, "cycle": cycle, "loop": loop, "leases": leases, "releases": releases, "layout": layout,
		"elsewhere": elsewhere, "other-redis": otherRedis, "away": away, "refused": refused, "clock": clock,
		"certificates": certificates,
	} {
		// Of one virtual host or prefix each, so all at the same time.
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s.install(t, name))
		})
	}
}

func healthy(t *testing.T, i *installation) {
	t.Helper()
	for range 2 {
		i.bridge(t, i.Env, i.client(t, i.RedisURL))
	}
	// What is due for a bound queue, and what waits, is no finding.
	ch := i.dial(t)
	if _, err := ch.QueueDeclare("orders", true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind("orders", "order.#", i.config.Topology.ReadyExchange(), false, nil); err != nil {
		t.Fatal(err)
	}
	for _, delay := range []int64{1000, 30_000, 90_000} {
		i.publish(t, ch, i.config.Topology.EntryExchange(), "order.unpaid", delay)
	}
	deadline := time.Now().Add(stateTimeout)
	report := i.examine(t, i.config)
	for ; len(report.Findings) > 0; report = i.examine(t, i.config) {
		if time.Now().After(deadline) {
			t.Fatalf("found in what is healthy: %+v", report.Findings)
		}
	}
	for _, c := range report.Checks {
		if c.Outcome != doctor.OutcomeFine {
			t.Errorf("%s: %s", c.Name, c.Outcome)
		}
	}
	if len(report.Checks) != len(doctor.CheckNames()) || report.Severe() || report.Unreachable() {
		t.Errorf("got %+v", report)
	}
}

func (i *installation) publish(t *testing.T, ch *amqp.Channel, exchange, key string, delay int64) {
	t.Helper()
	if err := ch.PublishWithContext(t.Context(), exchange, key, true, false, amqp.Publishing{
		MessageId: key, DeliveryMode: amqp.Persistent, Headers: amqp.Table{wire.HeaderDelay: delay},
	}); err != nil {
		t.Fatal(err)
	}
}

const ofTopology = "topology and policies"

func missing(t *testing.T, i *installation) {
	t.Helper()
	if _, err := i.dial(t).QueueDelete(i.config.Topology.Quarantine(), false, false, false); err != nil {
		t.Fatal(err)
	}
	f := i.has(t, ofTopology, "topology-missing", i.config.Topology.Quarantine())
	i.mend(t, f)
	i.hasNot(t, ofTopology, f.Code)
}

func differs(t *testing.T, i *installation) {
	t.Helper()
	ch, name := i.dial(t), i.config.Topology.Inbox()
	if _, err := ch.QueueDelete(name, false, false, false); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": "quorum", "x-max-length": int64(9)}); err != nil {
		t.Fatal(err)
	}
	f := i.has(t, ofTopology, "topology-differs", name, "messages: 0, by statistics")
	i.mend(t, f)
	i.hasNot(t, ofTopology, f.Code)

	exchange := i.config.Topology.EntryExchange()
	if err := ch.ExchangeDelete(exchange, false, false); err != nil {
		t.Fatal(err)
	}
	if err := ch.ExchangeDeclare(exchange, "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	i.mend(t, i.has(t, ofTopology, f.Code, exchange))
	i.hasNot(t, ofTopology, f.Code)
}

// Queues of an earlier configuration are pruned. A queue whose name only begins like that of a tier is not reported.
func leftover(t *testing.T, i *installation) {
	t.Helper()
	ch := i.dial(t)
	if _, err := ch.QueueDeclare(i.Prefix+".tier.gold", true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	old, err := topology.New(topology.Config{Prefix: i.Prefix, Tiers: []time.Duration{time.Second, 7 * time.Hour, 30 * time.Second}, Lead: time.Second, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	current := i.config.Topology
	i.config.Topology = old
	i.apply(t)
	i.config.Topology = current
	name := i.Prefix + ".tier.7h"
	if err := ch.QueueUnbind(name, "", old.EntryExchange(), amqp.Table{"x-match": "all-with-x", "x-delay": (7 * time.Hour).Milliseconds()}); err != nil {
		t.Fatal(err)
	}
	i.publish(t, ch, "", name, 0)
	f := i.has(t, ofTopology, "topology-leftover", name, "messages: 1, by statistics")
	if _, err := ch.QueuePurge(name, false); err != nil {
		t.Fatal(err)
	}
	f = i.has(t, ofTopology, f.Code, name, "messages: 0, by statistics")
	i.mend(t, f)
	i.until(t, "the end of the tier's queue", ofTopology, func(r doctor.Report) bool {
		for _, f := range r.Findings {
			if strings.Contains(f.Subject, "gold") {
				t.Errorf("it is not ours: %+v", f)
			}
		}
		return !slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool { return strings.Contains(f.Subject, name) })
	})
}

// A policy that is not for the bridge's queues alone stays in force for all others.
func policies(t *testing.T, i *installation) {
	t.Helper()
	if _, err := i.dial(t).QueueDeclare("others", true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	const all = `{"pattern":"^.*$","apply-to":"queues","priority":3,"definition":{"message-ttl":500}}`
	i.Manage(t, http.MethodPut, "/api/operator-policies/"+i.VHost+"/short", all)
	f := i.has(t, ofTopology, "policy-overrides", "operator policy short", "message-ttl 500 instead of 1000", "for queue "+i.Prefix+".")
	i.mend(t, f)
	i.hasNot(t, ofTopology, f.Code)
	i.until(t, "the policy to be in force for others", ofTopology, func(doctor.Report) bool {
		return strings.Contains(string(i.Manage(t, http.MethodGet, "/api/queues/"+i.VHost+"/others", "")), `"operator_policy":"short"`)
	})

	i.Manage(t, http.MethodPut, "/api/policies/"+i.VHost+"/ours", `{"pattern":"^`+i.Prefix+`\\.tier","apply-to":"queues","definition":{"max-length":7}}`)
	f = i.has(t, ofTopology, f.Code, "policy ours")
	i.mend(t, f)
	i.hasNot(t, ofTopology, f.Code)
}

func foreignBinding(t *testing.T, i *installation) {
	t.Helper()
	inbox := i.config.Topology.Inbox()
	if err := i.dial(t).QueueBind(inbox, "order #1/2", "amq.topic", false, amqp.Table{"x": int32(1)}); err != nil {
		t.Fatal(err)
	}
	f := i.has(t, ofTopology, "foreign-binding", "amq.topic -> "+inbox)
	i.mend(t, f)
	i.hasNot(t, ofTopology, f.Code)
}

func consumed(t *testing.T, i *installation) {
	t.Helper()
	tier := i.config.Topology.Tiers()[1].Name
	if _, err := i.dial(t).Consume(tier, "nosy", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := i.dial(t).Consume(i.config.Topology.Inbox(), "thief", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	f := i.has(t, ofTopology, "tier-consumed", tier, "nosy of user guest")
	taken := i.has(t, "inbox", "inbox-taken", "thief")
	i.mend(t, f)
	i.mend(t, taken)
	i.hasNot(t, ofTopology, f.Code)
	i.hasNot(t, "inbox", taken.Code)
}

const ofPermissions = "permissions"

func tooWide(t *testing.T, i *installation) {
	t.Helper()
	i.newUser(t, i.user, "administrator", ".*", ".*", ".*")
	f := i.has(t, ofPermissions, "permission-too-wide", "user "+i.user)
	privileged := i.has(t, ofPermissions, "user-privileged", "user "+i.user)
	if f.Severity != doctor.Warning || privileged.Severity != doctor.Warning {
		t.Errorf("severities %s and %s", f.Severity, privileged.Severity)
	}
	i.mend(t, f)
	i.mend(t, privileged)
	i.hasNot(t, ofPermissions, f.Code)
	i.hasNot(t, ofPermissions, privileged.Code)
}

// What is lacking shows without the rights of an administrator, too.
func tooNarrow(t *testing.T, i *installation) {
	t.Helper()
	i.newUser(t, "narrow-watcher", "monitoring", "^$", "^$", "^$")
	administrator := i.config.Management
	for _, m := range []*topology.Management{administrator, i.management(t, i.as(t, i.ManagementURL, "narrow-watcher", "secret"))} {
		i.config.Management = m
		i.newUser(t, i.user, "", "", `^narrow\\.(ready|lane)`, `^narrow\\.`)
		f := i.has(t, ofPermissions, "permission-missing", "user "+i.user)
		configure := i.has(t, ofPermissions, "permission-configure", "user "+i.user)
		if configure.Severity != doctor.Note || f.Severity != doctor.Problem {
			t.Errorf("severities %s and %s", configure.Severity, f.Severity)
		}
		i.mend(t, f)
		i.config.Management = administrator
		i.hasNot(t, ofPermissions, f.Code)
		i.hasNot(t, ofPermissions, configure.Code)
	}
}

// Other users who may write to what only bridges may are named, unless that is their role.
func writers(t *testing.T, i *installation) {
	t.Helper()
	const code = "user-too-wide"
	user := func(name, tags, write string) {
		t.Helper()
		i.newUser(t, "writers-"+name, tags, "^$", strings.ReplaceAll(write, `\`, `\\`), "^$")
	}
	for _, role := range roles.All() {
		rights := rightsOf(t, i.config.Topology, role)
		user("of-role-"+string(role), rights.Tag, rights.Write)
	}
	user("service", "", `^writers\.(entry|quarantine)$`) // publishes and consumes
	user("administrator", "administrator", ".*")
	i.hasNot(t, ofPermissions, code)
	for _, test := range []struct{ name, tags, write, covers string }{
		{"everything", "monitoring,management", ".*", "writers.ready, writers.retry, writers.quarantine and "},
		{"prefix", "", "writers", "writers.ready, writers.retry, writers.quarantine and "},
		{"ready", "", `^writers\.(entry|ready)$`, "writers.ready"},
		{"tier", "", "tier.1s", "writers.tier.1s"},
		{"default", "", `^amq\.default$`, "amq.default"},
	} {
		user(test.name, test.tags, test.write)
		f := i.has(t, ofPermissions, code, "user writers-"+test.name)
		if want := fmt.Sprintf("write permission %q covers %s", test.write, test.covers); !strings.HasPrefix(f.Found, want) {
			t.Errorf("it says %s, want %s", f.Found, want)
		}
		if left := i.examine(t, i.config, ofPermissions).Without(code); len(left.Findings) > 0 {
			t.Errorf("not ignored: %+v", left.Findings)
		}
		i.mend(t, f)
		i.hasNot(t, ofPermissions, code)
		var now struct{ Write string }
		if err := json.Unmarshal(i.Manage(t, http.MethodGet, "/api/permissions/"+i.VHost+"/writers-"+test.name, ""), &now); err != nil || now.Write != `^writers\.entry$` {
			t.Errorf("%s may write to %s (%v)", test.name, now.Write, err)
		}
	}
	user("unjudged", "", "^(?!amq)")
	i.has(t, ofPermissions, "check-not-made", ofPermissions, `the write pattern "^(?!amq)" of user "writers-unjudged" cannot be judged here`)
}

// A user without the tag that a check needs is told so; the broker would show such a
// user an empty list.
func lacksTags(t *testing.T, i *installation) {
	t.Helper()
	i.config.Management = i.management(t, i.as(t, i.ManagementURL, "weak", "secret"))
	for _, test := range []struct{ check, tag string }{
		{"inbox", "monitoring"}, {"permissions", "administrator"},
	} {
		i.newUser(t, "weak", "management", "^$", "^$", "^$")
		f := i.has(t, test.check, "check-not-made", test.check, "tag "+test.tag)
		i.mend(t, f)
		i.hasNot(t, test.check, f.Code)
	}
}

func inbox(t *testing.T, i *installation) {
	t.Helper()
	i.publish(t, i.dial(t), i.config.Topology.EntryExchange(), "order.unpaid", 90_000)
	f := i.has(t, "inbox", "inbox-unattended", i.config.Topology.Inbox())
	i.has(t, ofBridges, "no-bridge", i.Prefix)
	i.mend(t, f)
	i.hasNot(t, "inbox", f.Code)
	i.hasNot(t, ofBridges, "messages-without-id")
	if err := i.dial(t).PublishWithContext(t.Context(), i.config.Topology.EntryExchange(), "order.unpaid", true, false, amqp.Publishing{
		DeliveryMode: amqp.Persistent, Headers: amqp.Table{wire.HeaderDelay: int64(90_000)},
	}); err != nil {
		t.Fatal(err)
	}
	i.has(t, ofBridges, "messages-without-id", i.config.Topology.EntryExchange())
	alone := i.has(t, ofBridges, "one-bridge", "bridge ")
	i.mend(t, alone)
	i.hasNot(t, ofBridges, alone.Code)
}

func unrouted(t *testing.T, i *installation) {
	t.Helper()
	ch, top := i.dial(t), i.config.Topology
	for range 3 {
		i.publish(t, ch, top.EntryExchange(), "order.unknown", 0)
	}
	if err := ch.PublishWithContext(t.Context(), top.RetryExchange(), "gone", false, false, amqp.Publishing{}); err != nil {
		t.Fatal(err)
	}
	const check = "unbound routing keys"
	f := i.has(t, check, "unrouted-messages", "routing key order.unknown", "3 of the first ")
	i.has(t, check, f.Code, "routing key gone")
	// A look leaves them there.
	until(t, "all messages to be back", func() bool {
		q, err := ch.QueueDeclarePassive(top.Unrouted(), true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		return q.Messages == 4
	})
	if _, err := ch.QueueDeclare("orders", true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	i.carryOut(t, strings.Replace(f.Commands[0], "QUEUE", "orders", 1))
	i.until(t, "the binding to be seen", check, func(r doctor.Report) bool {
		return slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool { return strings.Contains(f.Found, "queue orders is bound for it by now") })
	})
	if _, err := ch.QueuePurge(top.Unrouted(), false); err != nil {
		t.Fatal(err)
	}
	i.hasNot(t, check, f.Code)
}

// What the shovel that is printed has moved counts for as much as before: what a bridge has
// written does, and what a stranger has forged does not.
func shovelled(t *testing.T, i *installation) {
	t.Helper()
	ch, top := i.dial(t), i.config.Topology
	i.bridge(t, i.Env, i.client(t, i.RedisURL))
	ids := []string{"now", "tier", "lane"}
	for n, delay := range []int64{0, 1000, 1500} {
		lane := top.Lane(time.Second, 0)
		if err := ch.PublishWithContext(t.Context(), top.EntryExchange(), "order.unknown", true, false, amqp.Publishing{
			MessageId: ids[n], UserId: "guest", DeliveryMode: amqp.Persistent, Headers: amqp.Table{
				wire.HeaderDelay: delay, wire.HeaderPath: "forged", wire.HeaderUserID: "forged", wire.HeaderQueue: "forged",
				wire.HeaderEntry: "forged", "x-death": []any{amqp.Table{"queue": lane, "exchange": lane, "reason": "expired", "count": int64(1)}},
			},
		}); err != nil {
			t.Fatal(err)
		}
	}
	f := i.has(t, "unbound routing keys", "unrouted-messages", "routing key order.unknown", "3 of the first 3")
	if _, err := ch.QueueDeclare("orders", true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	for _, command := range f.Commands {
		i.carryOut(t, strings.Replace(command, "QUEUE", "orders", 1))
	}
	for range ids {
		var d amqp.Delivery
		until(t, "a message that was moved", func() (ok bool) {
			var err error
			if d, ok, err = ch.Get("orders", true); err != nil {
				t.Fatal(err)
			}
			return ok
		})
		m := top.Message(&d)
		said := fmt.Sprintf("path %q, queue %q, entry %q, user %q", m.Journey.Path, m.Journey.Queue, m.Entry, m.UserID)
		want := `path "", queue "", entry "", user "guest"`
		if d.MessageId == "lane" {
			want = strings.Replace(want, `path ""`, `path "parked, then lane 1s"`, 1)
		}
		if said != want || d.RoutingKey != "order.unknown" {
			t.Errorf("%s came by %s with %s, want %s", d.MessageId, d.Exchange, said, want)
		}
	}
	i.hasNot(t, "unbound routing keys", f.Code)
}

func wedged(t *testing.T, i *installation) {
	t.Helper()
	ch, top := i.dial(t), i.config.Topology
	if _, err := ch.QueueDeclare("full", true, false, false, false, amqp.Table{"x-queue-type": "classic", "x-max-length": int64(1), "x-overflow": "reject-publish"}); err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind("full", "order.#", top.ReadyExchange(), false, nil); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		i.publish(t, ch, top.EntryExchange(), "order.unpaid", 1000)
	}
	const check = "tiers and lanes"
	f := i.has(t, check, "tier-wedged", top.Tiers()[0].Name, "queue full is full and refuses messages (max-length 1")
	deliveries, err := ch.Consume("full", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for range deliveries {
		}
	}()
	i.hasNot(t, check, f.Code)
}

const ofBound = "queues of consumers"

// A queue with a limit that refuses what is beyond is named before it is full, and louder
// when it is.
func refuses(t *testing.T, i *installation) {
	t.Helper()
	ch, top := i.dial(t), i.config.Topology
	if _, err := ch.QueueDeclare("limited", true, false, false, false, amqp.Table{"x-queue-type": "classic", "x-max-length": int64(2), "x-overflow": "reject-publish"}); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare("dropping", true, false, false, false, amqp.Table{"x-queue-type": "quorum", "x-max-length": int64(2)}); err != nil {
		t.Fatal(err)
	}
	// An exchange in between is no way out.
	if err := ch.ExchangeDeclare("between", "fanout", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		ch.ExchangeBind("between", "order.#", top.ReadyExchange(), false, nil),
		ch.QueueBind("limited", "", "between", false, nil), ch.QueueBind("dropping", "", "between", false, nil),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	f := i.has(t, ofBound, "queue-refuses", "queue limited", "max-length 2 (overflow reject-publish, messages: 0)")
	if f.Severity != doctor.Warning {
		t.Errorf("not full yet: %+v", f)
	}
	i.publish(t, ch, "", "limited", 0)
	i.publish(t, ch, "", "limited", 0)
	if f = i.has(t, ofBound, f.Code, "queue limited", "it is full (max-length 2, messages: 2"); f.Severity != doctor.Problem {
		t.Errorf("full: %+v", f)
	}
	if r := i.examine(t, i.config, ofBound); len(r.Findings) != 1 {
		t.Errorf("more is found: %+v", r.Findings)
	}
	if err := ch.QueueUnbind("limited", "", "between", nil); err != nil {
		t.Fatal(err)
	}
	i.hasNot(t, ofBound, f.Code)
}

// A queue that dead-letters into an entry wedges a tier. What the finding says frees it,
// and once the entry is tracked the queue may be bound again.
func cycle(t *testing.T, i *installation) {
	t.Helper()
	ch, top := i.dial(t), i.config.Topology
	if _, err := ch.QueueDeclare("work", true, false, false, false, amqp.Table{
		"x-queue-type": "quorum", "x-message-ttl": int64(10), "x-dead-letter-exchange": top.EntryExchange(),
	}); err != nil {
		t.Fatal(err)
	}
	bind := func() {
		if err := ch.QueueBind("work", "order.#", top.ReadyExchange(), false, nil); err != nil {
			t.Fatal(err)
		}
	}
	bind()
	// One that has come by the entry first would be dropped instead: work, at-most-once,
	// finds the cycle itself.
	if err := ch.QueueBind("work", "order.#", "amq.topic", false, nil); err != nil {
		t.Fatal(err)
	}
	i.publish(t, ch, "amq.topic", "order.unpaid", 1000)
	const waiting = "tiers and lanes"
	f := i.has(t, ofBound, "dead-letter-cycle", "queue work", "dead-letters into "+top.EntryExchange(), "by its argument")
	i.has(t, waiting, "tier-wedged", top.Tiers()[0].Name, "queue work dead-letters into "+top.EntryExchange()+", so what comes back is a cycle")
	i.mend(t, f)
	i.hasNot(t, waiting, "tier-wedged")
	i.until(t, "the message to be unrouted", "unbound routing keys", func(r doctor.Report) bool { return len(r.Findings) == 1 })

	tracked, err := topology.New(topology.Config{Prefix: i.Prefix, Tiers: []time.Duration{time.Second, 30 * time.Second}, Lead: time.Second, Shards: 1, Tracked: true})
	if err != nil {
		t.Fatal(err)
	}
	i.config.Topology = tracked
	i.mend(t, i.has(t, ofTopology, "foreign-binding", top.EntryExchange()))
	i.hasNot(t, ofTopology, "foreign-binding")
	bind()
	i.hasNot(t, ofBound, f.Code)

	i.Manage(t, http.MethodPut, "/api/policies/"+i.VHost+"/dead", `{"pattern":"^byPolicy$","apply-to":"queues","definition":{"dead-letter-exchange":"`+top.Tiers()[0].Name+`"}}`)
	if _, err := ch.QueueDeclare("byPolicy", true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	i.has(t, ofBound, f.Code, "queue byPolicy", "by policy dead")
}

// What is due and comes to an entry exchange again is delayed again, without end.
func loop(t *testing.T, i *installation) {
	t.Helper()
	ch, top := i.dial(t), i.config.Topology
	i.hasNot(t, ofBound, "ready-loop")
	if err := ch.ExchangeBind(top.EntryExchange(), "delayed.#", "amq.topic", false, nil); err != nil { // as MQTT needs it
		t.Fatal(err)
	}
	i.hasNot(t, ofBound, "ready-loop")
	if err := ch.ExchangeBind("amq.topic", "#", top.ReadyExchange(), false, nil); err != nil {
		t.Fatal(err)
	}
	f := i.has(t, ofBound, "ready-loop", "exchange amq.topic", "it leads to "+top.EntryExchange(), `by routing key "delayed.#"`)
	i.mend(t, f)
	i.hasNot(t, ofBound, f.Code)
}

const ofBridges = "bridges and leases"

// A bridge that has lost Redis leaves its lease behind.
func leases(t *testing.T, i *installation) {
	t.Helper()
	client := i.client(t, i.RedisURL)
	i.bridge(t, i.Env, client)
	i.has(t, ofBridges, "one-bridge", "bridge ")
	park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: i.client(t, i.RedisURL), Topology: i.config.Topology})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "an owner", func() bool {
		state, err := redisbridge.Inspect(t.Context(), i.config.Redis, i.config.Topology)
		return err == nil && state.Leases[0].Owner != ""
	})
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := park.Park(t.Context(), &message.Message{ID: "o-1", RoutingKey: "order.unpaid"}, message.After(2*time.Second)); err != nil {
		t.Fatal(err)
	}
	f := i.has(t, ofBridges, "lease-expired", "shard 0")
	i.mend(t, f)
	i.hasNot(t, ofBridges, f.Code)
}

// Bridges of two releases are a note, which says how many are of each.
func releases(t *testing.T, i *installation) {
	t.Helper()
	client := i.client(t, i.RedisURL)
	i.bridge(t, i.Env, client)
	i.has(t, ofBridges, "one-bridge", "bridge ")
	i.hasNot(t, ofBridges, "bridge-releases")
	now, err := client.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	register, reports, other := "{"+i.Prefix+"}:bridges", "{"+i.Prefix+"}:reports", "other-ABCDEFGH"
	report := fmt.Sprintf(`%d {"version":"v0.0.1","layout":"5"}`, now.UnixMilli())
	if err := errors.Join(
		client.HSet(t.Context(), reports, other, report).Err(),
		client.ZAdd(t.Context(), register, redis.Z{Score: float64(now.Add(stateTimeout).UnixMilli()), Member: other}).Err(),
	); err != nil {
		t.Fatal(err)
	}
	f := i.has(t, ofBridges, "bridge-releases", i.Prefix, "v0.0.1: 1")
	if f.Severity != doctor.Note {
		t.Errorf("it is a %s", f.Severity)
	}
	if err := client.ZRem(t.Context(), register, other).Err(); err != nil {
		t.Fatal(err)
	}
	i.hasNot(t, ofBridges, f.Code)
}

func until(t *testing.T, what string, reached func() bool) {
	t.Helper()
	deadline := time.Now().Add(stateTimeout)
	for !reached() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func layout(t *testing.T, i *installation) {
	t.Helper()
	park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: i.config.Redis, Topology: i.config.Topology})
	if err != nil {
		t.Fatal(err)
	}
	if err := park.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	i.hasNot(t, ofBridges, "redis-layout")
	right := i.config.Topology
	if i.config.Topology, err = topology.New(topology.Config{Prefix: i.Prefix, Shards: 2}); err != nil {
		t.Fatal(err)
	}
	f := i.has(t, ofBridges, "redis-layout", "prefix "+i.Prefix)
	if f.Found != "in use with shards 1, not 2" {
		t.Errorf("found: %s", f.Found)
	}
	i.config.Topology = right
	i.hasNot(t, ofBridges, f.Code)
}

const ofSharing = "one deployment per prefix"

// Two virtual hosts, one Redis, one prefix. Of the two bridges the first one is of a release
// that does not note down whose the prefix is.
func elsewhere(t *testing.T, i *installation) {
	t.Helper()
	i.bridge(t, i.Env, i.client(t, i.RedisURL))
	i.hasNot(t, ofSharing, "bridge-elsewhere")
	if err := i.config.Redis.HSet(t.Context(), "{"+i.Prefix+"}:layout", "owner", "{}").Err(); err != nil {
		t.Fatal(err)
	}
	other := i.Env
	other.VHost = i.VHost + "-2"
	i.Manage(t, http.MethodPut, "/api/vhosts/"+other.VHost, "{}")
	i.Manage(t, http.MethodPut, "/api/permissions/"+other.VHost+"/guest", `{"configure":".*","write":".*","read":".*"}`)
	there := *i
	there.Env = other
	other.AMQPURL = there.as(t, i.broker.AMQPURL(), "guest", "guest")
	stop := i.bridge(t, other, i.client(t, i.RedisURL))
	f := i.has(t, ofSharing, "bridge-elsewhere", "bridge ")
	stop()
	i.hasNot(t, ofSharing, f.Code)
}

// Two Redises, one virtual host, one prefix.
func otherRedis(t *testing.T, i *installation) {
	t.Helper()
	i.bridge(t, i.Env, i.client(t, i.RedisURL))
	i.hasNot(t, ofSharing, "bridge-of-other-redis")
	ch := i.dial(t)
	until(t, "RabbitMQ knows the installation, or each bridge would make one up", func() bool {
		q, err := ch.QueueDeclarePassive(i.config.Topology.Installation(), true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		return q.Messages == 1
	})
	stop := i.bridge(t, i.Env, i.client(t, strings.TrimSuffix(i.RedisURL, "/0")+"/1"))
	f := i.has(t, ofSharing, "bridge-of-other-redis", "bridge ")
	stop()
	i.hasNot(t, ofSharing, f.Code)
}

// Nobody listens there; the checks that need no other server go on.
func away(t *testing.T, i *installation) {
	t.Helper()
	const nowhere = "127.0.0.1:1"
	i.bridge(t, i.Env, i.client(t, i.RedisURL))
	for _, test := range []struct {
		code  string
		spoil func(*doctor.Config)
		made  string
	}{
		{"broker-unreachable", func(c *doctor.Config) { c.AMQPURL = "amqp://guest:guest@" + nowhere + "/" }, ofTopology},
		{"management-unreachable", func(c *doctor.Config) { c.Management = i.management(t, "http://guest:guest@"+nowhere) }, ofBridges},
		{"redis-unreachable", func(c *doctor.Config) { c.Redis = i.client(t, "redis://"+nowhere+"/0") }, ofTopology},
	} {
		broken := i.config
		broken.Patience = time.Second
		test.spoil(&broken)
		report := i.examine(t, broken)
		if !report.Unreachable() || !slices.ContainsFunc(report.Findings, func(f doctor.Finding) bool {
			return f.Code == test.code && strings.Contains(f.Subject, nowhere) && strings.Contains(f.Found, "these checks are not made")
		}) {
			t.Errorf("%s: %+v", test.code, report.Findings)
		}
		made := slices.ContainsFunc(report.Checks, func(c doctor.Check) bool { return c.Name == test.made && c.Outcome != doctor.OutcomeNotMade })
		if !made {
			t.Errorf("with %s the check %q is not made: %+v", test.code, test.made, report.Checks)
		}
	}
}

func refused(t *testing.T, i *installation) {
	t.Helper()
	for _, test := range []struct {
		code, check string
		spoil       func(*doctor.Config)
	}{
		{"broker-refused", "unbound routing keys", func(c *doctor.Config) { c.AMQPURL = i.as(t, i.AMQPURL, i.user, "wrong") }},
		{"management-refused", "RabbitMQ's version", func(c *doctor.Config) {
			c.Management = i.management(t, i.as(t, i.ManagementURL, i.user, "secret"))
		}},
		{"redis-refused", "clock of Redis", func(c *doctor.Config) {
			c.Redis = i.client(t, servertest.AsRedisUser(t, i.RedisURL, "stranger", "wrong"))
		}},
	} {
		broken := i.config
		test.spoil(&broken)
		report := i.examine(t, broken, test.check)
		if report.Unreachable() || !slices.ContainsFunc(report.Findings, func(f doctor.Finding) bool { return f.Code == test.code }) {
			t.Errorf("%s: %+v", test.code, report.Findings)
		}
		for _, f := range report.Findings {
			if strings.Contains(f.Found+f.Subject, "wrong@") || strings.Contains(f.Found+f.Subject, ":wrong") {
				t.Errorf("the password is in %+v", f)
			}
		}
	}
	// The tag that is printed lets the user in.
	i.config.Management = i.management(t, i.as(t, i.ManagementURL, i.user, "secret"))
	f := i.has(t, "RabbitMQ's version", "management-refused", "127.0.0.1")
	i.carryOut(t, f.Commands[1])
	i.hasNot(t, "RabbitMQ's version", f.Code)
}

// A machine whose clock is wrong, seen from there.
func clock(t *testing.T, i *installation) {
	t.Helper()
	const check = "clock of Redis"
	right := i.config.Now
	i.config.Now = func() time.Time { return time.Now().Add(-90 * time.Second) }
	f := i.has(t, check, "clock-redis", "Redis at 127.0.0.1", "ahead of")
	// The broker's clock is that of Redis, here.
	i.hasNot(t, "clock of RabbitMQ", "clock-broker")
	i.config.Now = right
	i.hasNot(t, check, f.Code)
}
