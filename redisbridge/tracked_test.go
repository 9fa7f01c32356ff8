package redisbridge_test

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// tracked makes the default entry of c a tracked one.
func tracked(c topology.Config) topology.Config {
	c.Tracked = true
	return c
}

// A message whose delay equals a tier is parked like any other, so that it can be looked
// up, listed, cancelled and rescheduled.
func TestATierThroughATrackedEntryIsParked(t *testing.T) {
	t.Parallel()
	c := tracked(short())
	c.Tiers = append(c.Tiers, time.Hour)
	b := newBench(t, c)
	b.run(t, nil)
	publish := func(id string, delay time.Duration) {
		b.publishEntry(t, amqp.Publishing{MessageId: id, Body: []byte(id), Headers: amqp.Table{"x-delay": delay.Milliseconds()}})
	}
	for _, id := range []string{"cancelled", "earlier", "later"} {
		publish(id, time.Hour)
		b.parkedThere(t, id)
	}
	if change, err := b.park.Cancel(t.Context(), "cancelled"); err != nil || change.Outcome != redisbridge.OutcomeDone {
		t.Errorf("cancel: %+v (%v)", change, err)
	}
	if change, err := b.park.Reschedule(t.Context(), "earlier", message.After(time.Second)); err != nil || change.Outcome != redisbridge.OutcomeDone {
		t.Errorf("reschedule: %+v (%v)", change, err)
	}
	if change, err := b.park.Reschedule(t.Context(), "later", message.After(2*time.Hour)); err != nil || change.Outcome != redisbridge.OutcomeDone {
		t.Errorf("reschedule: %+v (%v)", change, err)
	}
	publish("a tier", time.Second)
	for id, path := range map[string]message.Path{"a tier": "parked", "earlier": "parked"} {
		got := b.arrivals.awaitID(t, id)
		if !strings.HasPrefix(string(got.Journey.Path), string(path)) || got.at.Before(got.Journey.Due) {
			t.Errorf("%s: came by %q, %v after it was due", id, got.Journey.Path, got.at.Sub(got.Journey.Due))
		}
	}
	b.parkedThere(t, "later")
	for _, tier := range b.topology.TierQueues() {
		if n := b.messagesIn(t, tier.Name); n != 0 {
			t.Errorf("%d messages in %s", n, tier.Name)
		}
	}
}

// What has no delay is delivered at once, by the bridge.
func TestNoDelayThroughATrackedEntry(t *testing.T) {
	t.Parallel()
	b := newBench(t, tracked(short()))
	b.run(t, nil)
	for id, headers := range map[string]amqp.Table{
		"none": nil, "zero": {"x-delay": int64(0)}, "negative": {"x-delay": int64(-1)}, "past": {"x-deliver-at": int64(1)},
	} {
		b.publishEntry(t, amqp.Publishing{MessageId: id, Headers: headers})
		if got := b.arrivals.awaitID(t, id); got.Journey.Path != message.PathDirect && got.Journey.Path != wire.ReadyPath {
			t.Errorf("%s: came by %q", id, got.Journey.Path)
		}
	}
}

// parkedThere waits until a message is parked.
func (b *bench) parkedThere(t *testing.T, id string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; pauseShortly() {
		e, known, err := lookUp(b.park.Get(t.Context(), id))
		if err != nil {
			t.Fatal(err)
		}
		if known && e.State == redisbridge.StateParked {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is not parked: %+v", id, e)
		}
	}
}

func (b *bench) messagesIn(t *testing.T, queue string) int {
	t.Helper()
	conn, err := amqp.Dial(b.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // a test may ask again and again
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return q.Messages
}

// A queue that dead-letters into a tracked entry sends its messages round, again and
// again: what the bridge publishes carries no x-death, without which RabbitMQ would take
// them for a cycle, and keep them in a tier where they hold up everybody's. Of each
// reason but rejected that would be so after as many as the dead-letter prefetch.
func TestATrackedEntryTakesDeadLetters(t *testing.T) {
	t.Parallel()
	for reason, c := range map[string]struct {
		messages int
		args     amqp.Table
		give     func(d *amqp.Delivery) error // what a consumer does with a message
	}{
		"expired":        {messages: 1100, args: amqp.Table{"x-message-ttl": int64(50)}}, // more than the prefetch, which is 1000
		"maxlen":         {messages: 40, args: amqp.Table{"x-max-length": int64(1)}},
		"delivery_limit": {messages: 40, args: amqp.Table{"x-delivery-limit": int64(1)}, give: func(d *amqp.Delivery) error { return d.Reject(true) }},
		"rejected":       {messages: 40, give: func(d *amqp.Delivery) error { return d.Reject(false) }},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tracked(short()))
			b.run(t, nil)
			b.deadLettering(t, c.args, c.give)
			messages := make([]amqp.Publishing, c.messages)
			for i := range messages {
				id := fmt.Sprint(reason, i)
				messages[i] = amqp.Publishing{MessageId: id, Body: []byte(id), Headers: amqp.Table{"x-delay": int64(500), "shop": int64(7)}}
			}
			b.publishEntry(t, messages...)
			const rounds = 4
			b.comeRound(t, c.messages, rounds)
			// Nobody else's message of a tier waits for them.
			b.publishEntry(t, amqp.Publishing{MessageId: "another", Headers: amqp.Table{"x-delay": int64(500)}})
			b.arrivals.awaitID(t, "another")
			if n := b.messagesIn(t, b.topology.Quarantine()); n != 0 {
				t.Errorf("%d messages in quarantine", n)
			}
		})
	}
}

// deadLettering declares a queue behind the ready exchange that dead-letters into the
// entry exchange. give, if any, is what its consumer does.
func (b *bench) deadLettering(t *testing.T, more amqp.Table, give func(*amqp.Delivery) error) {
	t.Helper()
	args := amqp.Table{"x-queue-type": "quorum", "x-dead-letter-exchange": b.topology.EntryExchange()}
	maps.Copy(args, more)
	ch := b.channel(t)
	if _, err := ch.QueueDeclare("work", true, false, false, false, args); err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind("work", "#", b.topology.ReadyExchange(), false, nil); err != nil {
		t.Fatal(err)
	}
	if give == nil {
		return
	}
	deliveries, err := ch.Consume("work", "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for d := range deliveries {
			if give(&d) != nil { // the connection is closed
				return
			}
		}
	}()
}

// comeRound waits until n messages have come out of the ready exchange so many times,
// each time as they were published, and not before they were due.
func (b *bench) comeRound(t *testing.T, n, rounds int) {
	t.Helper()
	for deadline := time.Now().Add(3 * patience); ; pauseShortly() {
		all := b.arrivals.await(t, n, 3*patience)
		round := 0
		for id, list := range all {
			for i, got := range list {
				if string(got.Body) != id || got.RoutingKey != "order.unpaid" || got.Headers["shop"] != int64(7) || got.at.Before(got.Journey.Due) {
					t.Fatalf("%s, round %d: %+v", id, i, got)
				}
			}
			if len(list) >= rounds {
				round++
			}
		}
		if round >= n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("of %d messages %d have come out %d times", n, round, rounds)
		}
	}
}

// A dead letter has the ID of the message that it was, and is none that its publisher
// repeats: neither a window makes it one, nor that its record is not settled yet.
func TestADeadLetterOfATrackedEntryIsNoRepetition(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ window, delay time.Duration }{
		"within a window": {time.Hour, 500 * time.Millisecond}, "before it is settled": {0, 20 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tracked(short()))
			b.run(t, func(config *redisbridge.Config) { config.Window = c.window })
			b.deadLettering(t, nil, func(d *amqp.Delivery) error { return d.Reject(false) })
			messages := make([]amqp.Publishing, 20)
			for i := range messages {
				id := strconv.Itoa(i)
				messages[i] = amqp.Publishing{MessageId: id, Body: []byte(id), Headers: amqp.Table{"x-delay": c.delay.Milliseconds(), "shop": int64(7)}}
			}
			b.publishEntry(t, messages...)
			b.comeRound(t, len(messages), 6)
		})
	}
}
