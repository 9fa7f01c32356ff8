package topology_test

import (
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/topology"
)

// What a message tells of its journey counts where the broker vouches for who has written it.
func TestForgedJourneysDoNotCount(t *testing.T) {
	t.Parallel()
	top, err := topology.New(topology.Config{
		Prefix: "shop", Tiers: []time.Duration{time.Minute}, Entries: []topology.Entry{{Name: "orders", Kind: amqp.ExchangeTopic}},
	})
	if err != nil {
		t.Fatal(err)
	}
	death := func(queue, exchange string) amqp.Table {
		return amqp.Table{"queue": queue, "exchange": exchange, "reason": "expired", "count": int64(1)}
	}
	const all, some, none = "all of it", "instants", "nothing"
	for name, c := range map[string]struct {
		exchange string
		deaths   []any
		want     string
		entry    string
	}{
		"out of a lane":                                       {"shop.ready", []any{death("shop.lane.1m.0", "shop.lane.1m.0")}, all, "told"},
		"out of a lane of entries":                            {"shop.due.lanes", []any{death("shop.lane.1m.0.entries", "shop.lane.1m.0.entries")}, all, "told"},
		"out of a lane of another configuration":              {"shop.ready", []any{death("shop.lane.7m.31", "shop.lane.7m.31")}, all, "told"},
		"promoted at once":                                    {"shop.ready", nil, all, "told"},
		"promoted at once, of an entry":                       {"shop.ready.orders", nil, all, "told"},
		"a retry":                                             {"shop.retry", nil, all, "told"},
		"quarantined by a consumer":                           {"shop.quarantine", nil, all, "told"},
		"dead-lettered by a queue, after a lane":              {"shop.quarantine", []any{death("billing", "shop.ready"), death("shop.lane.1m.0", "shop.lane.1m.0")}, all, "told"},
		"dead-lettered by a queue, after promotion":           {"shop.quarantine", []any{death("billing", "shop.ready")}, all, "told"},
		"dead-lettered by a queue, after a tier":              {"shop.quarantine", []any{death("billing", "shop.ready"), death("shop.tier.1m", "shop.entry")}, some, ""},
		"dead-lettered by a queue, published at once":         {"shop.quarantine", []any{death("billing", "shop.entry")}, none, ""},
		"dead-lettered by a queue to which anybody publishes": {"shop.quarantine", []any{death("billing", "")}, none, ""},
		"dead-lettered by the inbox":                          {"shop.quarantine", []any{death("shop.inbox", "shop.entry.orders")}, none, "orders"},
		"dead-lettered by the inbox, forged up to 3.13":       {"shop.quarantine", []any{death("shop.inbox", "shop.ready"), death("shop.lane.1m.0", "shop.lane.1m.0")}, none, ""},
		"a command":                {"shop.quarantine", []any{death("shop.command", "shop.command")}, none, ""},
		"out of a tier":            {"shop.ready", []any{death("shop.tier.1m", "shop.tier.1m")}, some, ""},
		"out of a tier of entries": {"shop.due.tiers", []any{death("shop.tier.1m.entries", "shop.entry.orders")}, some, "orders"},
		"out of a tier, with more than the broker has noted": {"shop.ready", []any{death("shop.tier.1m", "shop.lane.1m.0"), death("shop.lane.1m.0", "shop.lane.1m.0")}, some, ""},
		"published at once":                     {"shop.entry", nil, none, ""},
		"published at once to an entry":         {"shop.entry.orders", nil, none, "orders"},
		"published at once, with a forged lane": {"shop.entry", []any{death("shop.lane.1m.0", "shop.lane.1m.0")}, none, ""},
		"by an exchange of somebody else's":     {"theirs", []any{death("shop.lane.1m.0", "shop.lane.1m.0")}, none, ""},
		"straight into a queue":                 {"", nil, none, ""},
		"in the inbox":                          {"shop.entry.orders", []any{death("theirs", "theirs")}, none, "orders"},
		"of another prefix":                     {"shop2.ready", nil, none, ""},
		"x-death of another type":               {"shop.ready", []any{"x"}, none, ""},
	} {
		published := time.Now().Add(-time.Minute).Truncate(time.Millisecond).UTC()
		const layout = "2006-01-02T15:04:05.000Z07:00"
		headers := amqp.Table{
			"x-delaybridge-published": published.Format(layout), "x-delaybridge-due": published.Add(time.Minute).Format(layout),
			"x-delaybridge-path": "told", "x-delaybridge-entry": "told", "x-delaybridge-user-id": "told", "x-delaybridge-version": int64(7),
			"x-delaybridge-queue": "told", "x-delaybridge-attempts": int64(4), "own": "kept",
		}
		if c.deaths != nil {
			headers["x-death"] = c.deaths
		}
		m := top.Message(&amqp.Delivery{Exchange: c.exchange, RoutingKey: "k", UserId: "property", Headers: headers})
		want := message.Message{Entry: c.entry, RoutingKey: "k", UserID: "property", Headers: amqp.Table{"own": "kept"}}
		switch c.want {
		case all:
			want.UserID = "told"
			want.Journey = message.Journey{Published: published, Due: published.Add(time.Minute), Path: "told", Version: 7, Queue: "told", Attempts: 4}
		case some:
			want.Journey = message.Journey{Published: published, Due: published.Add(time.Minute), Path: "tier 1m"}
		}
		if got, want := fmt.Sprintf("%+v", m), fmt.Sprintf("%+v", want); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, want)
		}
	}
}

// Out of a tier only what can be true counts, and what can be true harms nobody.
func TestImpossibleInstantsDoNotCount(t *testing.T) {
	t.Parallel()
	top, err := topology.New(topology.Config{Prefix: "shop", Tiers: []time.Duration{time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC()
	for name, c := range map[string]struct {
		published, due time.Time
		counts         bool
	}{
		"a minute":                {now.Add(-time.Minute), now, true},
		"by a clock that is fast": {now.Add(-30 * time.Second), now.Add(30 * time.Second), true},
		"long ago":                {now.Add(-time.Hour), now.Add(-59 * time.Minute), true},
		"in 9999":                 {time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 1, 1, 0, 1, 0, 0, time.UTC), false},
		"not the tier's delay":    {now.Add(-time.Hour), now, false},
		"no due time":             {now.Add(-time.Minute), time.Time{}, false},
		"not published":           {time.Time{}, now, false},
	} {
		headers := amqp.Table{"x-death": []any{amqp.Table{"queue": "shop.tier.1m", "exchange": "shop.entry"}}}
		for header, at := range map[string]time.Time{"x-delaybridge-published": c.published, "x-delaybridge-due": c.due} {
			if !at.IsZero() {
				headers[header] = at.Format("2006-01-02T15:04:05.000Z07:00")
			}
		}
		m := top.Message(&amqp.Delivery{Exchange: "shop.ready", Headers: headers})
		if got := m.Journey.Path == "tier 1m" && !m.Journey.Published.IsZero(); got != c.counts {
			t.Errorf("%s: %+v", name, m.Journey)
		}
	}
}
