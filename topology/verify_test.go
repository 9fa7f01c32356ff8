package topology_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology"
)

func TestVerifyBeforeApply(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	drifts := b.verify(t)
	if want := len(b.Exchanges()) + len(b.Queues()); len(drifts) != want {
		t.Errorf("%d differences, want one for each of %d entities", len(drifts), want)
	}
	for _, d := range drifts {
		if d.Expected != "present" || d.Found != "absent" || d.Remedy != "delaybridge topology apply" {
			t.Errorf("got %+v", d)
		}
	}
}

func TestVerifyAfterApply(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply(t)
	// What users do with the ready exchange is no drift.
	ch := b.channel(t)
	if _, err := ch.QueueDeclare("orders", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind("orders", "order.#", b.ReadyExchange(), false, nil); err != nil {
		t.Fatal(err)
	}
	b.verifiedWithout(t)
}

func TestVerifySeesWhatIsMissingOrSurplus(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply(t)
	ch := b.channel(t)
	entry, first, second := b.EntryExchange(), b.Tiers()[0].Name, b.Tiers()[1].Name
	match := func(delay any) amqp.Table { return amqp.Table{"x-match": "all-with-x", "x-delay": delay} }
	wanted := map[string]error{} // Kind Name Field Expected Found
	_, wanted["queue "+b.Quarantine()+" existence present absent"] = ch.QueueDelete(b.Quarantine(), false, false, false)
	wanted["exchange "+b.Unrouted()+" existence present absent"] = ch.ExchangeDelete(b.Unrouted(), false, false)
	wanted["binding "+b.Inbox()+" -> "+b.Inbox()+" existence everything absent"] = ch.QueueUnbind(b.Inbox(), "", b.Inbox(), nil)
	wanted["binding "+entry+" -> "+first+" existence x-delay=1000, x-match=all-with-x absent"] = ch.QueueUnbind(first, "", entry, match(int64(1000)))
	wanted["binding "+entry+" -> "+second+" existence absent x-delay=30000, x-match=all-with-x"] = ch.QueueBind(second, "", entry, false, match("30000"))
	wanted["binding amq.topic -> "+second+" existence absent routing key order"] = ch.QueueBind(second, "order", "amq.topic", false, nil)
	_, wanted["queue "+second+" consumers 0 1"] = ch.Consume(second, "", true, false, false, false, nil)
	_, wanted["queue "+b.Prefix()+".tier.7s existence absent present"] = ch.QueueDeclare(b.Prefix()+".tier.7s", true, false, false, false, amqp.Table{
		"x-queue-type": "quorum", "x-message-ttl": int64(7000), "x-dead-letter-exchange": b.ReadyExchange(), "x-dead-letter-strategy": "at-least-once",
		"x-overflow": "reject-publish", "x-delivery-limit": int64(1<<31 - 1),
	})
	// It has the name of a tier alone, and so is somebody else's.
	if _, err := ch.QueueDeclare(b.Prefix()+".tier.gold", true, false, false, false, amqp.Table{"x-queue-type": "quorum", "x-message-ttl": int64(7000)}); err != nil {
		t.Fatal(err)
	}
	for what, err := range wanted {
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}

	var drifts []topology.Drift
	eventually(t, "the consumer to show", func() bool {
		drifts = b.verify(t)
		return slices.ContainsFunc(drifts, func(d topology.Drift) bool { return d.Field == "consumers" })
	})
	for _, d := range drifts {
		got := strings.Join([]string{d.Kind, d.Name, d.Field, d.Expected, d.Found}, " ")
		if _, ok := wanted[got]; !ok || d.Remedy == "" {
			t.Errorf("not wanted, or without a remedy: %+v", d)
		}
		delete(wanted, got)
	}
	for missing := range wanted {
		t.Errorf("not seen: %s", missing)
	}
}

// An entry that is no longer configured is told by its exchanges and by the queues
// of entries, and not by all the bindings that it has.
func TestVerifySeesAnEntryThatIsLeft(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply(t)
	without := describe(t, topology.Config{Prefix: b.Prefix(), Tiers: []time.Duration{time.Second, 30 * time.Second}, Lead: time.Second, Shards: 1})
	// What others have under our prefix is theirs.
	if err := b.channel(t).ExchangeDeclare(b.ReadyExchangeOf("foreign"), "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	drifts, err := without.Verify(t.Context(), b.management)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range drifts {
		got = append(got, strings.Join([]string{d.Kind, d.Name, d.Field, d.Expected, d.Found}, " "))
		if remedy := map[string]string{"exchange": "list the entry in entries", "queue": "topology prune"}[d.Kind]; !strings.Contains(d.Remedy, remedy) {
			t.Errorf("remedy of %s: %s", d.Name, d.Remedy)
		}
	}
	var want []string
	for _, q := range []string{"lane.1s.0.entries", "tier.1s.entries", "tier.30s.entries"} {
		want = append(want, "queue "+b.Prefix()+"."+q+" existence absent present")
	}
	for _, x := range []string{"ready.audit", "entry.audit", "due.first", "due.tiers", "due.lanes"} {
		want = append(want, "exchange "+b.Prefix()+"."+x+" existence absent present")
	}
	if !slices.Equal(got, want) {
		t.Errorf("drift %q, want %q", got, want)
	}
	b.verifiedWithout(t)
}

func TestVerifySeesOtherArguments(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ch := b.channel(t)
	tier := b.Tiers()[1].Name
	if _, err := ch.QueueDeclare(tier, true, false, false, false, amqp.Table{
		"x-queue-type": "quorum", "x-message-ttl": int64(5000), "x-max-length": int64(9),
	}); err != nil {
		t.Fatal(err)
	}
	if err := ch.ExchangeDeclare(b.EntryExchange(), "topic", false, false, true, false, nil); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, d := range b.verify(t) {
		if d.Found != "absent" {
			found[d.Name+" "+d.Field] = d.Expected + " " + d.Found
		}
	}
	for field, want := range map[string]string{
		tier + " x-message-ttl":                   "30000 5000",
		tier + " x-max-length":                    "none 9",
		tier + " x-dead-letter-exchange":          fmt.Sprintf("%q none", b.ReadyExchange()),
		tier + " x-dead-letter-strategy":          `"at-least-once" none`,
		tier + " x-overflow":                      `"reject-publish" none`,
		tier + " x-delivery-limit":                "2147483647 none",
		b.EntryExchange() + " type":               "headers topic",
		b.EntryExchange() + " durable":            "true false",
		b.EntryExchange() + " internal":           "false true",
		b.EntryExchange() + " alternate-exchange": fmt.Sprintf("%q none", b.Inbox()),
	} {
		if found[field] != want {
			t.Errorf("%s: %q, want %q", field, found[field], want)
		}
	}
	if len(found) != 10 {
		t.Errorf("more differences than wanted: %v", found)
	}
}

// policy sets a policy or an operator policy on one queue.
func (b *bench) policy(t testing.TB, kind, queue, definition string) {
	t.Helper()
	b.manage(t, http.MethodPut, "/api/"+kind+"/"+b.env.VHost+"/for-"+queue,
		`{"pattern":"^`+queue+`$","apply-to":"queues","definition":`+definition+`}`)
}

// policyShows waits until the management API shows the policy of a queue.
func (b *bench) policyShows(t testing.TB, queue string) {
	t.Helper()
	eventually(t, "the policy to show", func() bool {
		return strings.Contains(b.manage(t, http.MethodGet, "/api/queues/"+b.env.VHost+"/"+queue, ""), `policy":"for-`+queue)
	})
}

func TestVerifySeesThroughPolicies(t *testing.T) {
	t.Parallel()
	const user, operator = "policies", "operator-policies"
	tests := []struct {
		kind, definition string
		want             string // Field Expected Found, or nothing
	}{
		{operator, `{"message-ttl":500}`, "message-ttl TTL 500"},
		{operator, `{"max-length":10}`, "max-length none 10"},
		{operator, `{"max-length-bytes":10}`, "max-length-bytes none 10"},
		{operator, `{"expires":3600000}`, "expires none 3600000"},
		{operator, `{"delivery-limit":5}`, "delivery-limit 2147483647 5"},
		{user, `{"message-ttl":500}`, "message-ttl TTL 500"},
		{user, `{"overflow":"drop-head"}`, `overflow "reject-publish" "drop-head"`},
		{user, `{"dead-letter-routing-key":"x"}`, `dead-letter-routing-key none "x"`},
		// In these the argument counts, so there is nothing to report.
		{user, `{"message-ttl":86400000}`, ""},
		{user, `{"dead-letter-strategy":"at-most-once"}`, ""},
		{user, `{"dead-letter-exchange":"amq.topic"}`, ""},
		{user, `{"overflow":"reject-publish"}`, ""},
		{operator, `{"delivery-limit":2147483648}`, ""},
	}
	b := newBench(t)
	var tiers []time.Duration
	for i := range tests {
		tiers = append(tiers, time.Duration(i+1)*time.Minute)
	}
	b.Topology = describe(t, topology.Config{Prefix: b.Prefix(), Tiers: tiers, Shards: 1})
	for i, test := range tests {
		b.policy(t, test.kind, b.Tiers()[i].Name, test.definition)
	}
	b.apply(t)
	for _, tier := range b.Tiers() {
		b.policyShows(t, tier.Name)
	}
	drifts := map[string]topology.Drift{}
	for _, d := range b.verify(t) {
		drifts[d.Name] = d
	}
	for i, test := range tests {
		tier := b.Tiers()[i]
		want := strings.Replace(test.want, "TTL", strconv.FormatInt(tier.TTL.Milliseconds(), 10), 1)
		d := drifts[tier.Name]
		delete(drifts, tier.Name)
		if got := strings.TrimSpace(d.Field + " " + d.Expected + " " + d.Found); got != want {
			t.Errorf("%s %s: drift %q, want %q", test.kind, test.definition, got, want)
		}
		policy := map[string]string{user: "policy ", operator: "operator policy "}[test.kind] + strconv.Quote("for-"+tier.Name)
		if test.want != "" && !strings.Contains(d.Remedy, "change "+policy) {
			t.Errorf("%s is not named in %q", policy, d.Remedy)
		}
	}
	for _, d := range drifts {
		t.Errorf("not wanted: %+v", d)
	}
}

// What Verify calls effective is what the broker does.
func TestTheEffectiveTTLIsTheOneInForce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply(t)
	tier := b.Tiers()[1]
	b.policy(t, "operator-policies", tier.Name, `{"message-ttl":100}`)
	b.policyShows(t, tier.Name)
	sent := time.Now()
	b.publish(t, tier.Name, "order", amqp.Publishing{})
	b.await(t, b.Unrouted())
	if waited := time.Since(sent); waited >= tier.TTL {
		t.Errorf("the message waited %v", waited)
	}
}
