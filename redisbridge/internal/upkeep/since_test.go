package upkeep_test

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/redisbridge/internal/upkeep"
	"github.com/delaybridge/delaybridge/topology"
)

// A message that could be removed too early tells nothing.
func TestSinceWhenAMessageIsThere(t *testing.T) {
	t.Parallel()
	top, err := topology.New(topology.Config{Prefix: "shop", Entries: []topology.Entry{{Name: "orders", Kind: amqp.ExchangeDirect}}})
	if err != nil {
		t.Fatal(err)
	}
	early, late := time.Unix(1_900_000_000, 0), time.Unix(1_900_000_060, 0)
	death := func(queue string, count int64, at time.Time) amqp.Table {
		return amqp.Table{"queue": queue, "reason": "rejected", "count": count, "time": at}
	}
	deaths := func(all ...any) amqp.Table { return amqp.Table{"x-death": all} }
	const unrouted, quarantine = "shop.unrouted", "shop.quarantine"
	said := amqp.Table{wire.HeaderQuarantined: late.UTC().Format(time.RFC3339)}
	stamped := func(h amqp.Table) amqp.Table {
		h[wire.HeaderBrokerTimestamp] = late.UnixMilli()
		return h
	}
	for name, c := range map[string]struct {
		queue, exchange string
		headers         amqp.Table
		within          time.Duration
		want            time.Time // zero where nothing is certain
	}{
		"out of a tier":                           {unrouted, "shop.ready", deaths(death("shop.tier.1m", 1, late)), 0, late.Add(time.Second)},
		"out of an entry's tier":                  {unrouted, "shop.due.tiers", deaths(death("shop.tier.1m.entries", 1, late)), 0, late.Add(time.Second)},
		"rejected, after a tier":                  {quarantine, quarantine, deaths(death("billing", 1, late), death("shop.tier.1m", 1, early)), 0, late.Add(time.Second)},
		"in another order":                        {quarantine, quarantine, deaths(death("shop.tier.1m", 1, early), death("billing", 1, late)), 0, late.Add(time.Second)},
		"rejected twice":                          {quarantine, quarantine, deaths(death("billing", 2, early)), 0, time.Time{}},
		"rejected twice, and expired since":       {quarantine, quarantine, deaths(death("other", 1, late), death("billing", 2, early)), 0, time.Time{}},
		"a copy of what came out of a tier":       {quarantine, quarantine, deaths(death("shop.tier.1m", 1, late)), 0, time.Time{}},
		"a copy of what came out of a lane":       {quarantine, quarantine, deaths(death("shop.lane.1m.0", 1, late)), 0, time.Time{}},
		"a copy, to the entry":                    {unrouted, "shop.entry", deaths(death("shop.tier.1m", 1, late)), 0, time.Time{}},
		"a copy, to another entry":                {unrouted, "shop.entry.orders", deaths(death("shop.tier.1m", 1, late)), 0, time.Time{}},
		"a copy, to the queue":                    {quarantine, "", deaths(death("billing", 1, late)), 0, time.Time{}},
		"an x-death without an instant":           {quarantine, quarantine, deaths(amqp.Table{"queue": "billing", "count": int64(1)}), 0, time.Time{}},
		"an empty x-death":                        {quarantine, quarantine, deaths(), 0, time.Time{}},
		"quarantined by a consumer":               {quarantine, quarantine, said, 0, late.Add(time.Second)},
		"that is not what the header is for":      {unrouted, "shop.ready", said, 0, time.Time{}},
		"anybody says that it was quarantined":    {quarantine, "", said, 0, time.Time{}},
		"straight from a bridge":                  {unrouted, "shop.ready", nil, 0, time.Time{}},
		"stamped":                                 {unrouted, "shop.ready", stamped(amqp.Table{}), time.Minute, late.Add(time.Minute)},
		"stamped, at the entry":                   {unrouted, "shop.entry", stamped(amqp.Table{}), time.Minute, late.Add(time.Minute)},
		"stamped, by anybody":                     {unrouted, "shop.ready", stamped(amqp.Table{}), 0, time.Time{}},
		"stamped before the last stretch began":   {unrouted, "shop.ready", stamped(deaths(death("shop.tier.1m", 2, early))), time.Minute, time.Time{}},
		"nothing that anybody has written counts": {quarantine, "shop.entry", said, 0, time.Time{}},
	} {
		since, known := upkeep.Dates{Topology: top, BrokerClockWithin: c.within}.Since(c.queue, &amqp.Delivery{Exchange: c.exchange, Headers: c.headers})
		if known == c.want.IsZero() || known && !since.Equal(c.want) {
			t.Errorf("%s: since %v, %v; want %v", name, since, known, c.want)
		}
	}
}
