package redisbridge_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// mentions returns the keys of the prefix, of all types, that have a text in their name or in what they hold.
func (b *bench) mentions(t *testing.T, text string) (keys []string) {
	t.Helper()
	err := operator(servertest.Primaries(t, b.RedisURL)).each(t, func(server *redis.Client) error {
		all, err := server.Keys(t.Context(), "*"+b.Prefix+"*").Result()
		if err != nil {
			return err
		}
		for _, key := range all {
			kind, err := server.Type(t.Context(), key).Result()
			if err != nil {
				return err
			}
			var held any
			switch kind {
			case "string":
				held, err = server.Get(t.Context(), key).Result()
			case "hash":
				held, err = server.HGetAll(t.Context(), key).Result()
			case "set":
				held, err = server.SMembers(t.Context(), key).Result()
			case "zset":
				held, err = server.ZRange(t.Context(), key, 0, -1).Result()
			case "stream":
				held, err = server.XRange(t.Context(), key, "-", "+").Result()
			case "none": // it has gone meanwhile
			default:
				t.Errorf("key %s is a %s, which this test does not read", key, kind)
			}
			if err != nil {
				return err
			}
			if strings.Contains(key+fmt.Sprint(held), text) {
				keys = append(keys, key)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// secret is a message whose body and header occur nowhere else.
func secret(id, key string) *message.Message {
	return &message.Message{ID: id, RoutingKey: key, Body: []byte("body of " + id), Headers: amqp.Table{"customer": "header of " + id}}
}

// erase erases an ID, and wants nothing of it left but, where the broker may have a copy, its tombstone.
func (b *bench) erase(t *testing.T, id string, removed int, leaves bool) redisbridge.Erasure {
	t.Helper()
	if keys := b.mentions(t, id); removed > 0 && len(keys) == 0 {
		t.Errorf("%s: Redis does not mention it before", id)
	}
	e, err := b.park.Erase(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if e.ID != id || e.Places[0].Place != "redis" || e.Places[0].Removed != removed || e.Until.IsZero() == leaves {
		t.Errorf("%s: %+v; want %d removed, and a tombstone: %v", id, e, removed, leaves)
	}
	for _, text := range []string{"body of " + id, "header of " + id} {
		if keys := b.mentions(t, text); len(keys) > 0 {
			t.Errorf("%s: %q is in %v", id, text, keys)
		}
	}
	keys, want := b.mentions(t, id), 0
	if leaves {
		want = 2 // its record, and when that can be forgotten
	}
	if len(keys) != want {
		t.Errorf("%s: its ID is in %v, want %d keys", id, keys, want)
	}
	return e
}

func TestEraseLeavesNothing(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, topology.Config{
		Tiers: []time.Duration{time.Second, 3 * time.Second}, Lead: 3 * time.Second, Shards: 2,
		Entries: []topology.Entry{{Name: "orders", Kind: amqp.ExchangeTopic}},
	}, servertest.ForTest(t))
	b.run(t, nil)

	// Delivered, and remembered; a retry of it waits.
	b.parkThis(t, secret("delivered-1", "k"), message.After(100*time.Millisecond))
	b.parkThis(t, secret("retried-1", "k"), message.After(100*time.Millisecond))
	for range 2 {
		d := b.getFrom(t, queueName)
		m := b.topology.Message(&d)
		if a, err := b.park.Arrive(t.Context(), &m); err != nil || a.Because() != isWanted {
			t.Fatalf("%+v, %v", a, err)
		}
		if m.ID == "retried-1" {
			m.Journey.Queue = queueName
			if err := b.park.Delay(t.Context(), &m, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.park.Handled(t.Context(), &m, message.Handling{Queue: queueName, Attempts: 1, At: time.Now(), History: []string{"header of " + m.ID}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"delivered-1", "retried-1"} {
		until(t, id+" is settled", func() bool {
			waits, err := redisbridge.Holds(t.Context(), b.client, b.topology, id)
			return err == nil && !waits
		})
	}
	b.erase(t, "delivered-1", 1, false)
	b.erase(t, "retried-1", 2, false)

	b.parkThis(t, secret("parked-1", "k"), message.After(time.Hour))
	b.parkThis(t, secret("parked-10", "k"), message.After(time.Hour))
	b.erase(t, "parked-10", 1, false)
	if all, err := b.park.GetAll(t.Context(), "parked-1"); err != nil || len(all) != 1 {
		t.Errorf("another ID: %+v, %v", all, err)
	}
	b.erase(t, "parked-1", 1, false)

	of := secret("ordered-1", "k")
	of.Entry = "orders"
	b.parkThis(t, of, message.After(time.Hour))
	if e := b.erase(t, "unknown-1", 0, true); !e.Until.After(time.Now().Add(23 * time.Hour)) {
		t.Errorf("a tier may have it, and is given until %v", e.Until)
	}
	if e, err := b.park.OfEntry("orders").Erase(t.Context(), "ordered-1"); err != nil || e.Entry != "orders" || !e.Until.IsZero() || len(b.mentions(t, "ordered-1")) > 0 {
		t.Errorf("%+v, %v", e, err)
	}

	// Groups with special names, and an ID that is the end of another one.
	for _, id := range []string{"*grouped?[1]", "a-*grouped?[1]"} {
		m := secret(id, "k")
		m.Headers["x-delay-group"] = "group of 7"
		b.parkThis(t, m, message.After(time.Hour))
	}
	b.erase(t, "a-*grouped?[1]", 1, false)
	b.wantGroup(t, "group of 7", "*grouped?[1]")
	b.erase(t, "*grouped?[1]", 1, false)
	if keys := b.mentions(t, "group of 7"); len(keys) > 0 {
		t.Errorf("the group is in %v", keys)
	}

	// Two messages with one ID.
	b.parkThis(t, secret("twice-1", "first"), message.After(time.Hour))
	b.publishEntry(t, amqp.Publishing{MessageId: "twice-1", Body: []byte("body of twice-1, too"), Headers: amqp.Table{"x-delay": int64(7_200_000)}})
	until(t, "both wait", func() bool {
		all, err := b.park.GetAll(t.Context(), "twice-1")
		return err == nil && len(all) == 2
	})
	b.erase(t, "twice-1", 2, false)

	// Cancelled while Redis alone had it, and where it may be with the broker.
	b.parkThis(t, secret("cancelled-1", "k"), message.After(time.Hour))
	for _, id := range []string{"cancelled-1", "recorded-1"} {
		if _, err := b.park.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	b.erase(t, "cancelled-1", 1, false)
	b.erase(t, "recorded-1", 1, true)

	// In a lane, and rescheduled and in a lane: what comes out is dropped.
	b.parkThis(t, secret("laned-1", "k"), message.After(4*time.Second))
	b.parkThis(t, secret("moved-1", "k"), message.After(4*time.Second))
	for _, id := range []string{"laned-1", "moved-1"} {
		until(t, id+" is with the broker", func() bool {
			state := b.lookUp(t, id).State
			return state == redisbridge.StateInLane || state == redisbridge.StateDue
		})
	}
	if _, err := b.park.Reschedule(t.Context(), "moved-1", message.After(time.Hour)); err != nil {
		t.Fatal(err)
	}
	e := b.erase(t, "laned-1", 1, true)
	b.erase(t, "moved-1", 1, true)
	if where := e.Places[2]; where.Place != "lane" && where.Place != "consumer-queue" || where.Place == "lane" && where.Queue != b.topology.Lane(3*time.Second, redisbridge.ShardIn(b.topology, "laned-1")) {
		t.Errorf("where it may be: %+v", e.Places)
	}
	desk := b.attend(t)
	for _, id := range []string{"laned-1", "moved-1"} {
		until(t, id+" is dropped", func() bool { return desk.drops(id) == 1 })
		if times := desk.times(id); len(times) > 0 {
			t.Errorf("%s was handled at %v", id, times)
		}
	}

	// An ID of which nothing is left can be used again.
	b.parkOne(t, "parked-1", message.After(time.Hour))
	for _, id := range []string{"", strings.Repeat("x", 256)} {
		if _, err := b.park.Erase(t.Context(), id); !errors.Is(err, redisbridge.ErrInvalid) {
			t.Errorf("an ID of %d bytes: %v", len(id), err)
		}
	}
}
