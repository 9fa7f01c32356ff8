package redisbridge_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

var errHandler = errors.New("the shop is on fire")

// returning declares a queue to which messages come back, beside one that nothing is to
// come back to, and collects what does.
func (b *bench) returning(t *testing.T, queues ...string) <-chan amqp.Delivery {
	t.Helper()
	ch, err := b.dial(t).Channel()
	if err != nil {
		t.Fatal(err)
	}
	all := make(chan amqp.Delivery, 1000)
	for _, queue := range queues {
		if _, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
			t.Fatal(err)
		}
		if err := ch.QueueBind(queue, queue, b.topology.RetryExchange(), false, nil); err != nil {
			t.Fatal(err)
		}
		deliveries, err := ch.Consume(queue, "", true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for d := range deliveries {
				d.ConsumerTag = queue
				all <- d
			}
		}()
	}
	return all
}

func failedOnce(id, queue string) *message.Message {
	m := &message.Message{
		ID: id, RoutingKey: "order.unpaid", Body: []byte(id), Entry: "orders",
		Headers: amqp.Table{"CC": []any{"shipping"}, "n": int64(1)}, Expiration: "5", UserID: "u", Priority: 9,
	}
	m.Journey.Published = time.UnixMilli(1_700_000_000_001).UTC()
	m.Journey.Failed(queue, time.Now(), errHandler)
	return m
}

// Whatever the delay: nothing comes back early, nor to another queue, nor to the ready
// exchange. Delays on both sides of the lanes' TTLs, and those of the lanes themselves.
func TestDelayComesBackToItsQueueWhenDue(t *testing.T) {
	t.Parallel()
	b := newBench(t, topology.Config{Tiers: []time.Duration{50 * time.Millisecond, time.Second, 3 * time.Second}, Lead: 3 * time.Second})
	back := b.returning(t, "billing", "shipping")
	b.run(t, nil)
	due := map[string]time.Time{}
	for _, d := range []time.Duration{0, 1, 10 * time.Millisecond, 50 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second} {
		for n := range 20 {
			m := failedOnce(fmt.Sprintf("%v-%d", d, n), "billing")
			due[m.ID] = time.Now().Add(d)
			go func() {
				if err := b.park.Delay(context.Background(), m, d); err != nil {
					t.Error(err)
				}
			}()
		}
	}
	for range len(due) {
		var d amqp.Delivery
		select {
		case d = <-back:
		case <-time.After(time.Minute):
			t.Fatal("not all come back")
		}
		now := time.Now()
		if d.ConsumerTag != "billing" || d.Exchange != b.topology.RetryExchange() {
			t.Errorf("%s came back to %s, by %s", d.MessageId, d.ConsumerTag, d.Exchange)
		}
		if early := due[d.MessageId].Sub(now); early > 0 {
			t.Errorf("%s came back %v early", d.MessageId, early)
		}
		want := failedOnce(d.MessageId, "billing")
		got := b.topology.Message(&d)
		if got.Journey.Path != wire.RetryPath || got.Journey.Attempts != 1 || len(got.Journey.History) != 1 || !got.Journey.Published.Equal(want.Journey.Published) {
			t.Errorf("%s has journey %+v", d.MessageId, got.Journey)
		}
		if got.Journey.Due.Before(due[d.MessageId].Truncate(time.Millisecond)) {
			t.Errorf("%s says it was due at %v, want %v", d.MessageId, got.Journey.Due, due[d.MessageId])
		}
		got.Journey = want.Journey
		if fmt.Sprint(got) != fmt.Sprint(*want) {
			t.Errorf("got  %+v\nwant %+v", got, *want)
		}
	}
	if n := len(b.arrivals.first()); n != 0 {
		t.Errorf("%d came out of the ready exchange", n)
	}
}

// Several queues have one ID come back, and foreign clients use one more than once.
func TestDelayKeepsMessagesOfOneIDApart(t *testing.T) {
	t.Parallel()
	b := newBench(t, topology.Config{Tiers: []time.Duration{time.Second}, Lead: time.Second})
	back := b.returning(t, "billing", "shipping")
	b.run(t, nil)
	for _, id := range []string{"o-1", "", strings.Repeat("ü", 127)} {
		for _, m := range []*message.Message{failedOnce(id, "billing"), failedOnce(id, "billing"), failedOnce(id, "shipping")} {
			if err := b.park.Delay(t.Context(), m, 200*time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := map[string]int{}
	for range 9 {
		select {
		case d := <-back:
			got[d.ConsumerTag+" "+d.MessageId]++
		case <-time.After(time.Minute):
			t.Fatalf("only %v come back", got)
		}
	}
	for _, id := range []string{"o-1", "", strings.Repeat("ü", 127)} {
		if got["billing "+id] != 2 || got["shipping "+id] != 1 {
			t.Errorf("came back: %v", got)
		}
	}
}

func TestDelayWhoseQueueIsGoneEndsInUnrouted(t *testing.T) {
	t.Parallel()
	b := newBench(t, topology.Config{Tiers: []time.Duration{time.Second}, Lead: time.Second})
	b.run(t, nil)
	if err := b.park.Delay(t.Context(), failedOnce("o-1", "gone"), 10*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	ch, err := b.dial(t).Channel()
	if err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume(b.topology.Unrouted(), "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := <-deliveries; d.MessageId != "o-1" {
		t.Errorf("got %s", d.MessageId)
	}
}

func TestDelayNeedsAQueue(t *testing.T) {
	t.Parallel()
	b := newBench(t, topology.Config{Tiers: []time.Duration{time.Second}, Lead: time.Second})
	if err := b.park.Delay(t.Context(), &message.Message{ID: "o-1", RoutingKey: "k"}, time.Second); err == nil || !strings.Contains(err.Error(), "names no queue") {
		t.Errorf("got %v", err)
	}
}

// While Redis is away Delay says so, or asks until it knows; then it goes on, and what
// it has reported comes back once.
func TestDelayWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	client, err := redisbridge.NewClient("redis://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	top, err := topology.New(topology.Config{})
	if err != nil {
		t.Fatal(err)
	}
	park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: client, Topology: top})
	if err != nil {
		t.Fatal(err)
	}
	if err := park.Delay(t.Context(), failedOnce("o-1", "billing"), time.Second); !errors.Is(err, redisbridge.ErrUnreachable) {
		t.Errorf("got %v, want ErrUnreachable", err)
	}
}
