package redisbridge_test

import (
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// left is how many messages have left the schedules, as those see it who watch.
func (b *bench) left(t *testing.T) (n int) {
	t.Helper()
	flows, err := flowOf(t.Context(), b.park, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range flows {
		n += int(f.Left)
	}
	return n
}

// A message that was put back, since a queue that it leads to has refused it, has not
// left. However often that happens, it counts once in the end.
func TestRefusedMessagesLeaveOnce(t *testing.T) {
	t.Parallel()
	const n, times = 20, 3
	b := newBench(t, short())
	conn := b.dial(t)
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	const full = "full"
	if _, err := ch.QueueDeclare(full, true, false, false, false, amqp.Table{"x-max-length": int64(0), "x-overflow": "reject-publish"}); err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind(full, "order.#", b.topology.ReadyExchange(), false, nil); err != nil {
		t.Fatal(err)
	}
	b.run(t, nil)
	for i := range n {
		b.parkOne(t, fmt.Sprint("m-", i), message.After(300*time.Millisecond)) // no lane is so short
	}
	// The queue beside the full one gets a copy each time.
	for deadline := time.Now().Add(patience); ; {
		again := 0
		for _, list := range b.arrivals.await(t, n, patience) {
			if len(list) >= times {
				again++
			}
		}
		if again == n {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d messages came again", again, n)
		}
		<-b.arrivals.changed
	}
	if left := b.left(t); left > n {
		t.Errorf("%d have left while each is refused, want %d at most", left, n)
	}
	if _, err := ch.QueueDelete(full, false, false, false); err != nil {
		t.Fatal(err)
	}
	reportWhen(t, b.park, "all are settled", func(r redisbridge.BridgeStats) bool { return r.Settled == n })
	if left := b.left(t); left != n {
		t.Errorf("%d have left, want %d", left, n)
	}
}

// What a dead bridge had claimed has not left, and what the broker confirms to a bridge
// that was taken for dead has.
func TestMessagesOfTheDeadLeaveOnce(t *testing.T) {
	t.Parallel()
	const n = 5
	b := newBench(t, topology.Config{Tiers: []time.Duration{time.Second}, Shards: 1})
	var bridges []*redisbridge.Bridge
	for _, name := range []string{"dead", "late", "heir"} {
		bridge, err := redisbridge.New(redisbridge.Config{Client: b.client, AMQPURL: b.AMQPURL, Topology: b.topology, Name: name, Lease: 300 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		bridges = append(bridges, bridge)
	}
	dead, late, heir := bridges[0], bridges[1], bridges[2]
	for i := range n {
		b.parkOne(t, fmt.Sprint("m-", i), message.After(300*time.Millisecond)) // no lane is so short
	}
	claims := func(what string, claim func() (int, error)) {
		t.Helper()
		until(t, what, func() bool {
			got, err := claim()
			if err != nil {
				t.Fatal(err)
			}
			return got == n
		})
	}
	for range 2 { // the second time as if it had not heard the answer
		claims("a claim", func() (int, error) { return redisbridge.ClaimAndVanish(t.Context(), dead, 0) })
	}
	if left := b.left(t); left != n {
		t.Errorf("%d have left with the dead, want %d", left, n)
	}
	claims("a confirm that comes late", func() (int, error) { return redisbridge.ConfirmedLate(t.Context(), late, heir, 0) })
	if left := b.left(t); left != n {
		t.Errorf("%d have left, want %d", left, n)
	}
}
