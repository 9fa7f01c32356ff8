package sampler_test

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/internal/top"
	"github.com/delaybridge/delaybridge/internal/top/sampler"
	"github.com/delaybridge/delaybridge/topology"
)

// The management API tells what goes into tiers, those of entries included, and into the
// inbox, and what is there.
func TestFlows(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	all, err := topology.New(topology.Config{
		Prefix: env.Prefix, Tiers: []time.Duration{time.Minute, time.Hour}, Shards: 2,
		Entries: []topology.Entry{{Name: "orders", Kind: amqp.ExchangeDirect}},
	})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := amqp.Dial(env.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := all.Apply(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	publish := func(exchange, key string) {
		if err := ch.PublishWithContext(t.Context(), exchange, key, false, false, amqp.Publishing{Headers: amqp.Table{"x-delay": int64(3_600_000)}}); err != nil {
			t.Fatal(err)
		}
	}
	management, err := topology.NewManagement(env.ManagementURL, env.VHost)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	published := func(is int) bool { return 0 < is && is <= n } // ten seconds late
	for began := time.Now(); ; <-time.After(100 * time.Millisecond) {
		n++
		publish(all.EntryExchange(), "k")
		publish(all.EntryExchangeOf("orders"), "k")
		publish("", all.Inbox())
		f, err := sampler.FlowsOf(t.Context(), all, management)
		if err != nil {
			t.Fatal(err)
		}
		tier := f.Tiers[time.Hour]
		if f.Counted && tier.In > f.Inbox.In && f.Inbox.In > 0 && tier.Messages > f.Inbox.Messages && published(f.Inbox.Messages) {
			if other := f.Tiers[time.Minute]; other != (top.Flow{}) || len(f.Lanes) != 1 {
				t.Errorf("what goes nowhere is %+v, and there are %d lanes", other, len(f.Lanes))
			}
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("the flows are %+v, want twice as much in the tier of 1h as in the inbox, and their rates", f)
		}
	}
}
