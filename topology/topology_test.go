package topology_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"pgregory.net/rapid"

	"github.com/delaybridge/delaybridge/topology"
)

// describe returns the description for c, which has to be valid.
func describe(t testing.TB, c topology.Config) *topology.Topology {
	t.Helper()
	top, err := topology.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// longestTTL is the limit of brokers as old as 3.10.
const longestTTL = time.Duration(1<<32-1) * time.Millisecond

func TestNewReportsEveryFaultAtOnce(t *testing.T) {
	t.Parallel()
	_, err := topology.New(topology.Config{
		Prefix: "no spaces",
		Tiers:  []time.Duration{0, time.Microsecond, time.Second, time.Second, longestTTL + time.Millisecond},
		Lead:   -time.Second,
		Shards: 65,
		Entries: []topology.Entry{
			{Name: "no spaces, please", Kind: amqp.ExchangeTopic}, {Name: "", Kind: amqp.ExchangeTopic},
			{Name: "orders", Kind: amqp.ExchangeTopic}, {Name: "orders", Kind: amqp.ExchangeDirect},
			{Name: "audit", Kind: "x-delayed-message"},
		},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`prefix "no spaces"`, "longer than 0", "whole number of milliseconds", "tier 1s is listed twice",
		"the longest TTL is", "lead -1s", "65 shards",
		`entry "no spaces, please"`, `entry ""`, `entry "orders" is listed twice`,
		`entry "audit": type "x-delayed-message" of its ready exchange: use direct, topic, fanout, headers`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}

func TestNewRejects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]topology.Config{
		"a name that begins with a dot":   {Prefix: ".x"},
		"a name that is too long":         {Prefix: strings.Repeat("x", 101)},
		"names that the broker reserves":  {Prefix: "amq.delays"},
		"the reserved name itself":        {Prefix: "amq"},
		"a lead below the smallest tier":  {Tiers: []time.Duration{time.Minute}, Lead: time.Second},
		"a negative number of shards":     {Shards: -1},
		"a negative TTL":                  {Tiers: []time.Duration{-time.Second}},
		"a TTL with half a millisecond":   {Tiers: []time.Duration{1500 * time.Microsecond}},
		"a TTL above the broker's limit":  {Tiers: []time.Duration{50 * 24 * time.Hour}},
		"an entry whose name is too long": {Entries: []topology.Entry{{Name: strings.Repeat("x", 101), Kind: amqp.ExchangeTopic}}},
		"an entry without a type":         {Entries: []topology.Entry{{Name: "orders"}}},
		"a TTL that is there in two ways": {Tiers: []time.Duration{time.Minute, 60 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := topology.New(c); err == nil {
				t.Errorf("%+v is accepted", c)
			}
		})
	}
}

func TestTheZeroConfigIsTheDocumentedOne(t *testing.T) {
	t.Parallel()
	top := describe(t, topology.Config{})
	if top.Prefix() != topology.Defaults().Prefix || top.Shards() != topology.Defaults().Shards {
		t.Errorf("prefix %q, %d shards", top.Prefix(), top.Shards())
	}
	for i, ttl := range topology.Defaults().Tiers {
		if got := top.Tiers()[i].TTL; got != ttl {
			t.Errorf("tier %d: %v, want %v", i, got, ttl)
		}
	}
	leads := top.Leads()
	if len(leads) != 5 || leads[len(leads)-1] != topology.Defaults().Lead {
		t.Errorf("lanes for %v, want for the tiers up to %v", leads, topology.Defaults().Lead)
	}
}

func TestEntriesHaveExchangesOfTheirOwn(t *testing.T) {
	t.Parallel()
	top := describe(t, topology.Config{Entries: []topology.Entry{
		{Name: "orders", Kind: amqp.ExchangeDirect}, {Name: "audit", Kind: amqp.ExchangeFanout},
	}})
	if got := top.Entries(); len(got) != 2 || got[0].Name != "audit" || got[1].Kind != amqp.ExchangeDirect {
		t.Errorf("entries %v, want audit, then orders", got)
	}
	for entry, want := range map[string][2]string{
		"":        {"delaybridge.entry", "delaybridge.ready"},
		"orders":  {"delaybridge.entry.orders", "delaybridge.ready.orders"},
		"unknown": {"delaybridge.entry.unknown", "delaybridge.ready.unknown"},
	} {
		if got := [2]string{top.EntryExchangeOf(entry), top.ReadyExchangeOf(entry)}; got != want {
			t.Errorf("entry %q: %v, want %v", entry, got, want)
		}
		if got := top.EntryOf(want[0]); got != entry {
			t.Errorf("%s belongs to entry %q, want %q", want[0], got, entry)
		}
		if got := top.HasEntry(entry); got != (entry != "unknown") {
			t.Errorf("entry %q is configured: %v", entry, got)
		}
	}
}

// So an entry can be added to what is running: a queue cannot be changed.
func TestQueuesDoNotDependOnTheEntries(t *testing.T) {
	t.Parallel()
	entries := []topology.Entry{{Name: "orders", Kind: amqp.ExchangeDirect}, {Name: "audit", Kind: amqp.ExchangeFanout}}
	without, one, two := describe(t, topology.Config{}), describe(t, topology.Config{Entries: entries[:1]}), describe(t, topology.Config{Entries: entries})
	if got, want := fmt.Sprint(two.Queues()), fmt.Sprint(one.Queues()); got != want {
		t.Errorf("queues with two entries: %s, want those with one: %s", got, want)
	}
	queues, exchanges := fmt.Sprint(one.Queues()), fmt.Sprint(one.Exchanges())
	for _, q := range without.Queues() {
		if !strings.Contains(queues, fmt.Sprint(q)) {
			t.Errorf("queue %v is another one with an entry", q)
		}
	}
	for _, x := range without.Exchanges() {
		if !strings.Contains(exchanges, fmt.Sprint(x)) {
			t.Errorf("exchange %v is another one with an entry", x)
		}
	}
}

func TestTierTakesExactDelaysOnly(t *testing.T) {
	t.Parallel()
	top := describe(t, topology.Config{Tiers: []time.Duration{time.Minute, time.Second, 1500 * time.Millisecond}})
	for delay, want := range map[time.Duration]string{
		time.Second:                 "delaybridge.tier.1s",
		1500 * time.Millisecond:     "delaybridge.tier.1500ms",
		time.Minute:                 "delaybridge.tier.1m",
		time.Minute + 1:             "",
		time.Minute - 1:             "",
		2 * time.Second:             "",
		0:                           "",
		time.Hour + time.Nanosecond: "",
	} {
		if tier, ok := top.Tier(delay); ok != (want != "") || tier.Name != want {
			t.Errorf("%v: tier %q (%v), want %q", delay, tier.Name, ok, want)
		}
	}
}

// drawTopology draws a description for any valid configuration.
func drawTopology(t *rapid.T) *topology.Topology {
	ttls := rapid.SliceOfNDistinct(rapid.Int64Range(1, longestTTL.Milliseconds()), 1, 12, rapid.ID[int64]).Draw(t, "ttls")
	var tiers []time.Duration
	for _, ms := range ttls {
		tiers = append(tiers, time.Duration(ms)*time.Millisecond)
	}
	top, err := topology.New(topology.Config{
		Tiers:  tiers,
		Lead:   rapid.SampledFrom(tiers).Draw(t, "one tier") + longestTTL*time.Duration(rapid.IntRange(0, 1).Draw(t, "longer")),
		Shards: rapid.IntRange(1, 64).Draw(t, "shards"),
		Entries: rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) topology.Entry {
			return topology.Entry{
				Name: rapid.StringMatching(`[a-z0-9][a-z0-9.]{0,99}`).Draw(t, "name"),
				Kind: rapid.SampledFrom([]string{"direct", "topic", "fanout", "headers"}).Draw(t, "kind"),
			}
		}), 0, 3, func(e topology.Entry) string { return e.Name }).Draw(t, "entries"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return top
}

func TestNamesAreUniqueAndWithinTheBrokersLimit(t *testing.T) {
	t.Parallel()
	ours := regexp.MustCompile(`^delaybridge\.[a-z0-9.]+$`)
	rapid.Check(t, func(t *rapid.T) {
		top := drawTopology(t)
		exchanges, queues := map[string]bool{}, map[string]bool{}
		for _, x := range top.Exchanges() {
			if exchanges[x.Name] || !ours.MatchString(x.Name) || len(x.Name) > 255 {
				t.Fatalf("exchange %s", x.Name)
			}
			exchanges[x.Name] = true
		}
		for _, q := range top.Queues() {
			if queues[q.Name] || !exchanges[q.Name] {
				t.Fatalf("queue %s: twice, or without the exchange before it", q.Name)
			}
			queues[q.Name] = true
		}
		for _, b := range top.Bindings() {
			if !exchanges[b.Source] || (b.ToExchange && !exchanges[b.Destination]) || (!b.ToExchange && !queues[b.Destination]) {
				t.Fatalf("binding %+v has an end that is not described", b)
			}
		}
	})
}

func TestEveryWaitingQueueDeadLettersAtLeastOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		top := drawTopology(t)
		ttls, deadLetterTo := map[string]time.Duration{}, map[string]string{}
		for _, tier := range top.Tiers() {
			ttls[tier.Name], deadLetterTo[tier.Name] = tier.TTL, "delaybridge.ready"
			if len(top.Entries()) > 0 {
				ttls[tier.Name+".entries"], deadLetterTo[tier.Name+".entries"] = tier.TTL, "delaybridge.due.tiers"
			}
		}
		for _, ttl := range top.Leads() {
			for shard := range top.Shards() {
				lane := top.Lane(ttl, shard)
				ttls[lane], deadLetterTo[lane] = ttl, "delaybridge.ready"
				if len(top.Entries()) > 0 {
					lane = top.LaneOf("any", ttl, shard)
					ttls[lane], deadLetterTo[lane] = ttl, "delaybridge.due.lanes"
				}
			}
		}
		for _, q := range top.Queues() {
			ttl, waits := ttls[q.Name]
			if !waits {
				if _, expires := q.Args["x-message-ttl"]; expires {
					t.Fatalf("queue %s is not to expire messages", q.Name)
				}
				continue
			}
			delete(ttls, q.Name)
			want := amqp.Table{
				"x-queue-type":           "quorum",
				"x-message-ttl":          ttl.Milliseconds(),
				"x-dead-letter-exchange": deadLetterTo[q.Name],
				"x-dead-letter-strategy": "at-least-once",
				"x-overflow":             "reject-publish",
				"x-delivery-limit":       int64(1<<31 - 1),
			}
			for name, value := range want {
				if q.Args[name] != value {
					t.Fatalf("queue %s has %s %v, want %v", q.Name, name, q.Args[name], value)
				}
			}
			if len(q.Args) != len(want) {
				t.Fatalf("queue %s has more arguments than wanted: %v", q.Name, q.Args)
			}
		}
		if len(ttls) > 0 {
			t.Fatalf("no queue for %v", ttls)
		}
	})
}

func TestExchangesComeAfterThoseTheyLeadTo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		top := drawTopology(t)
		bindings, declared := top.Bindings(), map[string]bool{}
		for _, x := range top.Exchanges() {
			if alternate, ok := x.Args["alternate-exchange"].(string); ok && !declared[alternate] {
				t.Fatalf("exchange %s comes before its alternate %s", x.Name, alternate)
			}
			for _, b := range bindings {
				if b.Source == x.Name && b.ToExchange && !declared[b.Destination] {
					t.Fatalf("exchange %s comes before %s, to which it leads", x.Name, b.Destination)
				}
			}
			declared[x.Name] = true
		}
	})
}
