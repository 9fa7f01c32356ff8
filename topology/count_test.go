package topology_test

import (
	"context"
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/topology"
)

func TestCount(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply(t)
	ch := b.channel(t)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	put := func(queue string, n int) {
		for range n {
			c, err := ch.PublishWithDeferredConfirm("", queue, true, false, amqp.Publishing{DeliveryMode: amqp.Persistent})
			if err != nil || !c.Wait() {
				t.Fatalf("publish to %s: %v", queue, err)
			}
		}
	}
	tier, _ := b.Tier(30 * time.Second)
	put(tier.Name, 2)
	put(tier.Name+".entries", 1)
	put(b.Unrouted(), 3)
	put(b.Quarantine(), 4)
	if _, err := ch.QueueDelete(b.Inbox(), false, false, false); err != nil {
		t.Fatal(err)
	}
	c, err := b.Count(t.Context(), b.conn)
	if err != nil {
		t.Fatal(err)
	}
	_, inbox := c.Queues[b.Inbox()]
	lane, lanes := c.Lanes[time.Second]
	if c.Tiers[30*time.Second] != 3 || c.Tiers[time.Second] != 0 || len(c.Tiers) != 2 || lane != 0 || !lanes || inbox ||
		c.Queues[b.Unrouted()] != 3 || c.Queues[b.Quarantine()] != 4 {
		t.Errorf("got %+v", c)
	}

	// What is due, and has nowhere to go.
	if err := ch.ExchangeDelete(b.ReadyExchange(), false, false); err != nil {
		t.Fatal(err)
	}
	short, _ := b.Tier(time.Second)
	put(short.Name, 5)
	for deadline := time.Now().Add(stateTimeout); ; {
		n, err := b.CountNotTaken(t.Context(), b.management)
		if err != nil {
			t.Fatal(err)
		}
		if n == 5 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d are not taken, want 5", n)
		}
	}

	_ = b.conn.Close()
	if _, err := b.Count(t.Context(), b.conn); err == nil {
		t.Error("without a connection there is an answer")
	}
	nobody, err := topology.NewManagement("http://127.0.0.1:1", b.env.VHost)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.CountNotTaken(t.Context(), nobody); !errors.Is(err, topology.ErrUnreachable) {
		t.Errorf("got %v, want ErrUnreachable", err)
	}
}

// A broker that answers nothing does not keep anybody: what it was asked is named.
func TestCountEndsWithItsContext(t *testing.T) {
	t.Parallel()
	server := servertest.SingleRabbitMQ(t)
	all, err := topology.New(topology.Config{Prefix: "silent", Tiers: []time.Duration{time.Second, 30 * time.Second}, Lead: time.Second, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := amqp.Dial(server.AMQPURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := all.Apply(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	if err := server.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	limited, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	c, err := all.Count(limited, conn)
	if err != nil || len(c.Queues) > 0 || len(c.Silent) != len(all.Queues()) {
		t.Errorf("a broker that stands still: %+v, %v", c, err)
	}
	if err := server.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c, err := all.Count(t.Context(), conn); err != nil || len(c.Queues) != len(all.Queues()) {
		t.Errorf("a broker that goes on: %+v, %v", c, err)
	}
}

// What policies override is found without all that Verify compares, and in short.
func TestOverrides(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply(t)
	tier, _ := b.Tier(30 * time.Second)
	if drifts, err := b.Overrides(t.Context(), b.management); err != nil || len(drifts) > 0 {
		t.Errorf("without policies: %v, %v", drifts, err)
	}
	b.policy(t, "operator-policies", tier.Name, `{"message-ttl":500}`)
	b.policyShows(t, tier.Name)
	drifts, err := b.Overrides(t.Context(), b.management)
	want := `operator policy "for-` + tier.Name + `": message-ttl 500 instead of 30000, queues: 1`
	if got := b.Overridden(drifts); err != nil || len(drifts) != 1 || got != want {
		t.Errorf("got %q of %v, %v; want %q", got, drifts, err, want)
	}
}
