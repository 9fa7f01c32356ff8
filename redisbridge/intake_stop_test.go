package redisbridge_test

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// publishWithoutID publishes messages without an ID, each with another correlation ID, until it is
// stopped, and returns how many there were.
func (b *bench) publishWithoutID(t *testing.T) (published *atomic.Int64, stop func()) {
	t.Helper()
	published = new(atomic.Int64)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	conn := b.dial(t)
	for g := range 16 {
		ch, err := conn.Channel()
		if err == nil {
			err = ch.Confirm(false)
		}
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				confirm, err := ch.PublishWithDeferredConfirm(b.topology.EntryExchange(), "order.unpaid", true, false, amqp.Publishing{
					DeliveryMode: amqp.Persistent, Headers: amqp.Table{wire.HeaderDelay: int64(3_600_001)},
					CorrelationId: fmt.Sprint(g, "-", i),
				})
				if err != nil || !confirm.Wait() {
					t.Errorf("publish %d-%d: not confirmed: %v", g, i, err)
					return
				}
				published.Add(1)
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); all.Wait() })
	t.Cleanup(stop)
	return published, stop
}

// parkedIDs returns under which IDs is parked what has a correlation ID.
func (b *bench) parkedIDs(t *testing.T) map[string][]string {
	t.Helper()
	ids := map[string][]string{}
	for _, e := range b.list(t, redisbridge.Filter{}) {
		ids[e.Message.CorrelationID] = append(ids[e.Message.CorrelationID], e.Message.ID)
	}
	return ids
}

// A bridge that is stopped leaves no message in the inbox that it has parked: without an
// ID the next bridge could not recognise it.
func TestStoppedIntakeLeavesNothingThatItHasParked(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	published, end := b.publishWithoutID(t)
	for range 6 {
		stop := b.run(t, nil)
		before, more := published.Load(), int64(300)
		until(t, "messages published meanwhile", func() bool { return published.Load() >= before+more })
		stop()
	}
	end()
	b.run(t, nil)
	until(t, "all parked", func() bool { return int64(len(b.parkedIDs(t))) == published.Load() })
	ch := b.channel(t)
	until(t, "the inbox is empty", func() bool {
		inbox, err := ch.QueueDeclarePassive(b.topology.Inbox(), true, false, false, false, nil)
		return err == nil && inbox.Messages == 0
	})
	for correlation, ids := range b.parkedIDs(t) {
		if len(ids) != 1 {
			t.Errorf("%s is parked under %q", correlation, ids)
		}
		for _, id := range ids {
			if !strings.HasPrefix(id, wire.MadeUpPrefix) {
				t.Errorf("%s is parked as %s, want what begins with %s", correlation, id, wire.MadeUpPrefix)
			}
		}
	}
}

// holdAnswers holds back the answer of Redis to what has a text in it, until it is released.
type holdAnswers struct {
	text     string
	once     sync.Once
	held     chan struct{} // closed once there was something
	released chan struct{}
}

func (*holdAnswers) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*holdAnswers) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (h *holdAnswers) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if slices.ContainsFunc(cmds, h.has) {
			h.once.Do(func() { close(h.held) })
			<-h.released
		}
		return err
	}
}

func (h *holdAnswers) has(cmd redis.Cmder) bool {
	return slices.ContainsFunc(cmd.Args(), func(arg any) bool {
		record, ok := arg.([]byte)
		return ok && bytes.Contains(record, []byte(h.text))
	})
}

// Of a message that a bridge had parked and not acknowledged when it vanished, the second
// copy says what it may be.
func TestMessageWithoutIDThatComesAgainSaysSo(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	u, err := url.Parse(b.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), t.Name(), "127.0.0.1:0", u.Host)
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Stop)
	u.Host = proxy.Listen
	b.parkOne(t, "with which Redis learns the script", message.After(time.Hour))
	client := connect(t, b.RedisURL)
	hold := &holdAnswers{text: "in hand", held: make(chan struct{}), released: make(chan struct{})}
	client.AddHook(hold)
	b.run(t, func(c *redisbridge.Config) { c.AMQPURL, c.Client, c.Name = u.String(), client, "first" })
	t.Cleanup(func() { close(hold.released) }) // before the bridge is to end

	b.publishEntry(t, amqp.Publishing{CorrelationId: "in hand", Headers: amqp.Table{"x-delay": int32(3_600_001)}})
	select {
	case <-hold.held:
	case <-time.After(patience):
		t.Fatal("nobody has parked the message")
	}
	proxy.Stop()
	b.run(t, func(c *redisbridge.Config) { c.Name = "second" })
	until(t, "parked twice", func() bool { return len(b.parkedIDs(t)["in hand"]) == 2 })
	again := 0
	for _, id := range b.parkedIDs(t)["in hand"] {
		switch {
		case strings.HasPrefix(id, wire.MadeUpAgainPrefix):
			again++
		case !strings.HasPrefix(id, wire.MadeUpPrefix):
			t.Errorf("parked as %s", id)
		}
	}
	if again != 1 {
		t.Errorf("%d IDs say that the message was delivered before, want one", again)
	}
}
