package redisbridge_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/internal/wiretest"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// What a publisher sees of the entry exchange where something is not as it should
// be. What it has been confirmed is never dropped.

// send publishes a message by each way, and returns their IDs with when they are due.
func (b *bench) send(t *testing.T, conn *amqp.Connection, exchange, key string) map[string]time.Time {
	t.Helper()
	due := map[string]time.Time{}
	for way, delay := range ways {
		began := time.Now()
		p := amqp.Publishing{MessageId: way, Headers: amqp.Table{"x-delay": delay}, DeliveryMode: amqp.Persistent, Body: []byte(way)}
		if ok, err := publishOn(t, conn, exchange, key, p); !ok || err != nil {
			t.Fatalf("%s: confirmed %v, %v", way, ok, err)
		}
		due[way] = began.Add(time.Duration(delay) * time.Millisecond)
	}
	return due
}

// arriveOnTime waits for messages of send.
func (m *mailbox) arriveOnTime(t *testing.T, due map[string]time.Time) {
	t.Helper()
	for id, at := range due {
		if got := m.await(t, id, 1); got.at.Before(at) || string(got.Body) != id {
			t.Errorf("%s: %v early, body %q", id, at.Sub(got.at), got.Body)
		}
	}
}

// A mandatory message that nobody has bound is confirmed, is not returned, and waits
// in the unrouted queue when it is due.
func TestMandatoryMessageIsNeverReturned(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, short(), servertest.ForTest(t))
	if err := b.channel(t).QueueUnbind(queueName, "#", b.topology.ReadyExchange(), nil); err != nil {
		t.Fatal(err)
	}
	b.run(t, nil)
	unrouted, conn := b.newMailbox(t, b.topology.Unrouted()), b.dial(t)
	due := map[string]time.Time{}
	for way, delay := range ways {
		due[way] = time.Now().Add(time.Duration(delay) * time.Millisecond)
		ch, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		returned := ch.NotifyReturn(make(chan amqp.Return, 1))
		if err := ch.Confirm(false); err != nil {
			t.Fatal(err)
		}
		confirm, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), b.topology.EntryExchange(), "nobody.has.bound", true, false,
			amqp.Publishing{MessageId: way, Headers: amqp.Table{"x-delay": delay}, Body: []byte(way)})
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := confirm.WaitContext(t.Context()); !ok || err != nil {
			t.Errorf("%s: confirmed %v, %v", way, ok, err)
		}
		select {
		case <-returned: // the broker returns a message before it confirms it
			t.Errorf("%s: returned", way)
		default:
		}
	}
	unrouted.arriveOnTime(t, due)
}

// userWhoMayWrite returns the AMQP URL of a user with one permission.
func (b *bench) userWhoMayWrite(t *testing.T, pattern string) string {
	t.Helper()
	name := b.Prefix + "-publisher"
	b.Manage(t, http.MethodPut, "/api/users/"+name, `{"password":"secret","tags":""}`)
	t.Cleanup(func() { b.Manage(t, http.MethodDelete, "/api/users/"+name, "") })
	permissions, err := json.Marshal(map[string]string{"configure": "", "write": pattern, "read": ""})
	if err != nil {
		t.Fatal(err)
	}
	b.Manage(t, http.MethodPut, "/api/permissions/"+b.VHost+"/"+name, string(permissions))
	u, err := url.Parse(b.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, "secret")
	return u.String()
}

func dialAs(t *testing.T, url string) *amqp.Connection {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// A publisher needs no permission but to write to the entry exchange.
func TestPublisherWhoMayOnlyWriteToTheEntryExchange(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, short(), servertest.ForTest(t))
	b.run(t, nil)
	box := b.newMailbox(t, queueName)
	conn := dialAs(t, b.userWhoMayWrite(t, "^"+b.topology.EntryExchange()+"$"))
	box.arriveOnTime(t, b.send(t, conn, b.topology.EntryExchange(), "order.unpaid"))
}

// Where the publisher may not write, or has the wrong exchange, the broker closes its
// channel, and nothing is stored.
func TestPublisherIsTurnedAway(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, short(), servertest.ForTest(t))
	forbidden := dialAs(t, b.userWhoMayWrite(t, "^"+b.topology.ReadyExchange()+"$"))
	for name, c := range map[string]struct {
		conn     *amqp.Connection
		exchange string
		want     int
	}{
		"may not write": {forbidden, b.topology.EntryExchange(), amqp.AccessRefused},
		"not there":     {b.dial(t), b.topology.EntryExchange() + "s", amqp.NotFound},
	} {
		for way, delay := range ways {
			ok, err := publishOn(t, c.conn, c.exchange, "order.unpaid", amqp.Publishing{Headers: amqp.Table{"x-delay": delay}})
			var closed *amqp.Error
			if ok || !errors.As(err, &closed) || closed.Code != c.want {
				t.Errorf("%s, %s: confirmed %v, %v; want the channel closed with %d", name, way, ok, err, c.want)
			}
		}
	}
	b.allEmpty(t)
}

// allEmpty reports whether no queue holds a message of anybody.
func (b *bench) allEmpty(t *testing.T) {
	t.Helper()
	ch := b.channel(t)
	queues := append(b.topology.Queues(), topology.Queue{Name: queueName})
	for _, queue := range queues {
		q, err := ch.QueueDeclarePassive(queue.Name, true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if q.Messages > 0 && queue.Name != b.topology.Installation() {
			t.Errorf("%s holds %d messages", queue.Name, q.Messages)
		}
	}
}

// holds waits until a queue has so many ready messages.
func (b *bench) holds(t *testing.T, queue string, want int) {
	t.Helper()
	ch := b.channel(t)
	until(t, fmt.Sprintf("%s holds %d", queue, want), func() bool {
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		return err == nil && q.Messages == want
	})
}

// An inbox at its length limit refuses (basic.nack), and drops nothing that it has
// confirmed.
func TestInboxAtItsLimit(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"policies", "operator-policies"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			const limit, most = 20, 2000
			b := newBenchAt(t, short(), servertest.ForTest(t))
			b.Manage(t, http.MethodPut, "/api/"+kind+"/"+b.VHost+"/limit",
				fmt.Sprintf(`{"pattern":"^%s$","apply-to":"queues","definition":{"max-length":%d}}`, b.topology.Inbox(), limit))
			conn := b.dial(t)
			confirmed := map[string]bool{}
			refused := 0
			for i := 0; refused < 10 && i < most; i++ { // a quorum queue overshoots its limit by a few
				id := fmt.Sprint("m-", i)
				ok, err := publishOn(t, conn, b.topology.EntryExchange(), "order.unpaid", amqp.Publishing{
					MessageId: id, Headers: amqp.Table{"x-delay": int32(1234)}, DeliveryMode: amqp.Persistent,
				})
				if err != nil {
					t.Fatal(err)
				}
				if ok {
					confirmed[id] = true
				} else {
					refused++
				}
			}
			if refused == 0 || len(confirmed) < limit {
				t.Fatalf("%d confirmed, %d refused, with a limit of %d", len(confirmed), refused, limit)
			}
			b.holds(t, b.topology.Inbox(), len(confirmed))
			box := b.newMailbox(t, queueName)
			b.run(t, nil)
			for id := range confirmed {
				box.await(t, id, 1)
			}
			// It takes messages again.
			if ok, err := publishOn(t, conn, b.topology.EntryExchange(), "order.unpaid", amqp.Publishing{MessageId: "late", Headers: amqp.Table{"x-delay": int32(1234)}}); !ok || err != nil {
				t.Fatalf("confirmed %v, %v", ok, err)
			}
			box.await(t, "late", 1)
		})
	}
}

// Without a bridge, or without Redis, publishers are confirmed as ever, and what
// equals a tier is on time. The rest waits in the inbox, and is delivered afterwards.
func TestPublishingWhileTheRestIsDown(t *testing.T) {
	t.Parallel()
	t.Run("no bridge", func(t *testing.T) {
		t.Parallel()
		b := newBenchAt(t, short(), servertest.ForTest(t))
		box := b.newMailbox(t, queueName)
		due := b.send(t, b.dial(t), b.topology.EntryExchange(), "order.unpaid")
		parked := map[string]time.Time{"parked": due["parked"]}
		delete(due, "parked")
		box.arriveOnTime(t, due)
		b.holds(t, b.topology.Inbox(), 1)
		b.run(t, nil)
		box.arriveOnTime(t, parked)
	})
	t.Run("no Redis", func(t *testing.T) {
		t.Parallel()
		env, store := servertest.ForTest(t), servertest.RedisForTest(t)
		env.RedisURL = store.URL()
		b := newBenchAt(t, short(), env)
		log := newLogCapture()
		b.run(t, func(c *redisbridge.Config) { c.Logger = log.logger() })
		box, ch := b.newMailbox(t, queueName), b.channel(t)
		until(t, "the bridge takes in", func() bool {
			inbox, err := ch.QueueDeclarePassive(b.topology.Inbox(), true, false, false, false, nil)
			return err == nil && inbox.Consumers == 1
		})
		if err := store.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		due := b.send(t, b.dial(t), b.topology.EntryExchange(), "order.unpaid")
		parked := map[string]time.Time{"parked": due["parked"]}
		delete(due, "parked")
		// The bridge alone is enough for what is due at once.
		b.publishEntry(t, amqp.Publishing{MessageId: "no delay", Body: []byte("no delay")})
		due["no delay"] = time.Time{}
		box.arriveOnTime(t, due)
		log.await(t, "messages stay in the inbox")
		if err := store.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		box.arriveOnTime(t, parked)
	})
}

// RabbitMQ reads the headers of what enters the entry exchange, and ends the connection
// of whoever sends a table that cannot be read: it never comes to the inbox.
func TestBrokenTableIsRefusedByTheBroker(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, short(), servertest.ForTest(t))
	for name, c := range map[string]struct {
		tag     byte
		payload uint64
	}{
		"no such type":      {'?', 0},
		"text too long":     {'S', 0x7fffffff << 32},
		"table too long":    {'F', 100 << 32},
		"array half-way":    {'A', 4<<32 | 'I'<<24},
		"infinite":          {'d', math.Float64bits(math.Inf(1))},
		"table with no end": {'F', 4<<32 | 0xff000000},
	} {
		conn, err := wiretest.DialBroken(b.AMQPURL, c.tag, c.payload)
		if err != nil {
			t.Fatal(err)
		}
		ok, err := publishOn(t, conn, b.topology.EntryExchange(), "order.unpaid", amqp.Publishing{
			Headers: amqp.Table{"x-delay": int32(1234), "it": wiretest.Broken},
		})
		if ok || err == nil {
			t.Errorf("%s: confirmed %v, %v; want the broker to refuse", name, ok, err)
		}
		_ = conn.Close()
	}
	b.allEmpty(t)
}

// A body of more than 16 MiB, the default limit since RabbitMQ 4.0, is refused by the
// broker, or passes like any other.
func TestHugeBody(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, short(), servertest.ForTest(t))
	b.run(t, nil)
	box := b.newMailbox(t, queueName)
	body := bytes.Repeat([]byte("17 MiB in all..\n"), 17<<20/16)
	for way, delay := range ways {
		ok, err := publishOn(t, b.dial(t), b.topology.EntryExchange(), "order.unpaid", amqp.Publishing{
			MessageId: way, Headers: amqp.Table{"x-delay": delay}, Body: body,
		})
		var closed *amqp.Error
		switch {
		case ok:
			if got := box.await(t, way, 1); !bytes.Equal(got.Body, body) {
				t.Errorf("%s: a body of %d bytes arrives, want %d", way, len(got.Body), len(body))
			}
		case errors.As(err, &closed) && closed.Code == amqp.PreconditionFailed:
			if major, minor := version(t, b.dial(t)); major < 4 {
				t.Errorf("%s: refused by %d.%d: %v", way, major, minor, err)
			}
		default:
			t.Errorf("%s: confirmed %v, %v", way, ok, err)
		}
	}
	b.publishEntry(t, amqp.Publishing{MessageId: "next", Headers: amqp.Table{"x-delay": int32(1234)}})
	box.await(t, "next", 1)
}
