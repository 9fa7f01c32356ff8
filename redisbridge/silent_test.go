package redisbridge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/internal/wire"
)

// A queue of a consumer that answers nothing, such as one without a majority, and a lane
// that does not, hold up no message to others: not one that is parked, whatever its delay,
// and none that is due at once.
func TestSilentQueueHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	const toSilent, toLane, toOthers = 200, 100, 40
	// It was 30 seconds, and more for what came in then.
	const late = 15 * time.Second
	env := servertest.ForTest(t)
	server := servertest.SingleRabbitMQ(t)
	env.AMQPURL, env.ManagementURL, env.VHost = server.AMQPURL(), server.ManagementURL(), "/"
	c := short()
	c.Shards = 1 // all of them share its window
	b := newBenchAt(t, c, env)
	b.arrivals = listen(t, b.dial(t))
	b.bindQueue(t, "silent", "silent")
	b.run(t, nil)
	b.awaitComplete(t)
	resume := []func(){
		servertest.Silence(t, server, "silent"),
		servertest.Silence(t, server, b.topology.Lane(c.Lead, 0)),
	}

	// Through the inbox: due at once, shortly, and through another lane.
	delays := []time.Duration{-time.Millisecond, 300 * time.Millisecond, 1700 * time.Millisecond}
	publishing := func(id string, delay time.Duration) amqp.Publishing {
		return amqp.Publishing{
			MessageId: id, DeliveryMode: amqp.Persistent, Body: []byte(id),
			Headers: amqp.Table{wire.HeaderDelay: delay.Milliseconds()},
		}
	}
	confirming := b.confirming(t)
	send := func(key, id string, delay time.Duration) {
		t.Helper()
		confirm, err := confirming.PublishWithDeferredConfirm(b.topology.EntryExchange(), key, false, false, publishing(id, delay))
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := confirm.WaitContext(t.Context()); err != nil || !ok {
			t.Fatalf("%s: confirmed %v, %v", id, ok, err)
		}
	}
	for i := range toSilent {
		send("silent", fmt.Sprintf("silent-%d", i), delays[i%2])
	}
	for i := range toLane {
		send("order.unpaid", fmt.Sprintf("lane-%d", i), c.Lead+time.Second)
	}
	due := map[string]time.Time{}
	for i := range toOthers {
		for _, delay := range delays {
			id := fmt.Sprintf("fine-%d-%v", i, delay)
			send("order.unpaid", id, delay)
			due[id] = time.Now().Add(delay)
		}
	}
	// A shard knows by then that the queue is silent.
	const known, knownIn = "silent-with-a-lane", 8 * time.Second
	send("silent", known, knownIn)
	knownDue := time.Now().Add(knownIn)
	until(t, "all messages to other queues are there", func() bool {
		for id := range due {
			if len(b.arrivals.of(id)) == 0 {
				return false
			}
		}
		return true
	})
	if all := b.arrivals.await(t, len(due), patience); len(all) >= toSilent+1+toLane+len(due) {
		t.Error("all messages are there, though two queues answer nothing")
	}
	for id, at := range due {
		if got := b.arrivals.of(id)[0].at.Sub(at); got > late {
			t.Errorf("%s: %v late, want %v at most", id, got, late)
		}
	}
	time.Sleep(time.Until(knownDue))
	for _, one := range resume {
		one()
	}
	all := b.arrivals.await(t, toSilent+1+toLane+len(due), patience)
	for i := range toSilent + 1 {
		id := fmt.Sprintf("silent-%d", i)
		if i == toSilent {
			id = known
		}
		if len(all[id]) == 0 {
			t.Errorf("%s, to the queue that answers again, was lost", id)
		} else if path := all[id][0].Journey.Path; strings.Contains(string(path), "lane") {
			t.Errorf("%s: %q, and in a lane it holds up others", id, path)
		}
	}
	ch := b.channel(t)
	until(t, "the queue that answers again has them", func() bool {
		q, err := ch.QueueDeclarePassive("silent", true, false, false, false, nil)
		return err == nil && q.Messages > toSilent
	})
}
