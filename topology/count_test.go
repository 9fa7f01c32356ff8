package topology_test

import (
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

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
