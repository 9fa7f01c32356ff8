package consumer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
)

var errHandler = errors.New("the shop is on fire")

// whole is a message with everything in it.
func whole() message.Message {
	return message.Message{
		ID: "o-1", RoutingKey: key, Body: []byte{0, 1, 255},
		Headers:     amqp.Table{"n": int64(7), "list": []any{"a", true}, "table": amqp.Table{"bytes": []byte{0}}},
		ContentType: "application/json", ContentEncoding: "gzip", CorrelationID: "c", ReplyTo: "r", Type: "t", AppID: "a",
		Timestamp: time.Unix(1_700_000_000, 0), Expiration: "60000", UserID: "somebody", Priority: 3,
		Journey: message.Journey{
			Published: time.UnixMilli(1_700_000_000_001).UTC(), Due: time.UnixMilli(1_700_000_000_500).UTC(), Path: message.Path("tier 5s"),
		},
	}
}

func TestHandledOnceAndAcknowledged(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.bind()
	got := make(chan message.Message, 10)
	r := start(t, b.config(func(_ context.Context, m message.Message) error {
		got <- m
		return nil
	}))
	want := whole()
	b.publish(want)
	if m := <-got; !reflect.DeepEqual(m, want) {
		t.Errorf("got  %+v\nwant %+v", m, want)
	}
	o := r.observe(1)[0]
	if o.Outcome != consumer.Acknowledged || o.Attempts != 1 || o.Err != nil || o.Message.ID != "o-1" {
		t.Errorf("observed %+v", o)
	}
	if late := time.Since(want.Journey.Due); o.Lateness > late || o.Lateness < late-time.Minute {
		t.Errorf("lateness %v, want a little less than %v", o.Lateness, late)
	}
	r.stop()
	b.wantHeld(b.queue, 0)
	if len(got) > 0 {
		t.Errorf("handled %d times too often", len(got))
	}
}

func TestConcurrencyAndOrder(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.bind()
	b.publish(numbered(30)...)
	for _, concurrency := range []int{1, 4} {
		var now, most atomic.Int64
		var mu sync.Mutex
		var order []string
		c := b.config(func(_ context.Context, m message.Message) error {
			n := now.Add(1)
			defer now.Add(-1)
			mu.Lock()
			defer mu.Unlock()
			most.Store(max(most.Load(), n))
			order = append(order, m.ID)
			return nil
		})
		c.Concurrency = concurrency
		r := start(t, c)
		r.observe(30)
		r.stop()
		if most.Load() > int64(concurrency) {
			t.Errorf("%d handlers at a time, want at most %d", most.Load(), concurrency)
		}
		for i, id := range order {
			if want := fmt.Sprintf("m-%d", i); concurrency == 1 && id != want {
				t.Fatalf("number %d is %s", i, id)
			}
		}
		b.publish(numbered(30)...)
	}
}

func TestRetriedUntilItWorks(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	var calls atomic.Int64
	r := start(t, b.config(func(context.Context, message.Message) error {
		if calls.Add(1) < 3 {
			return errHandler
		}
		return nil
	}))
	b.bind()
	b.publish(numbered(1)...)
	if o := r.observe(1)[0]; o.Outcome != consumer.Acknowledged || o.Attempts != 3 || o.Err != nil {
		t.Errorf("observed %+v, want it acknowledged at the third attempt", o)
	}
	r.stop()
	b.wantHeld(b.queue, 0)
	b.wantHeld(b.topology.Quarantine(), 0)
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	const pause = 300 * time.Millisecond
	b := newBroker(t)
	var times []time.Time
	r := start(t, b.config(func(context.Context, message.Message) error {
		if times = append(times, time.Now()); len(times) == 1 {
			return fmt.Errorf("wrapped: %w", consumer.RetryAfter(pause, errHandler))
		}
		return nil
	}))
	b.bind()
	b.publish(numbered(1)...)
	r.observe(1)
	if waited := times[1].Sub(times[0]); waited < pause {
		t.Errorf("retried after %v, want at least %v", waited, pause)
	}
}

func TestAMessageThatWaitsForItsRetryHoldsUpNobody(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := b.config(func(_ context.Context, m message.Message) error {
		if m.ID == "m-0" {
			return consumer.RetryAfter(time.Hour, errHandler)
		}
		return nil
	})
	c.Concurrency = 1
	b.bind()
	r := start(t, c)
	b.publish(numbered(3)...)
	for i, o := range r.observe(2) {
		if want := fmt.Sprintf("m-%d", i+1); o.Message.ID != want {
			t.Errorf("observed %s, want %s", o.Message.ID, want)
		}
	}
	r.stop() // at once: a message that waits for its retry goes back
	if o := r.observe(3)[2]; o.Outcome != consumer.Returned || !errors.Is(o.Err, errHandler) {
		t.Errorf("observed %+v, want it returned", o)
	}
	b.wantHeld(b.queue, 1)
}

func TestQuarantine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler  consumer.HandlerFunc
		attempts int64
		says     string
	}{
		"rejected":          {func(context.Context, message.Message) error { return consumer.Reject(errHandler) }, 1, errHandler.Error()},
		"rejected, wrapped": {func(context.Context, message.Message) error { return fmt.Errorf("no: %w", consumer.Reject(errHandler)) }, 1, "no: " + errHandler.Error()},
		"failed too often":  {func(context.Context, message.Message) error { return errHandler }, 5, errHandler.Error()},
		"panicked":          {func(context.Context, message.Message) error { panic("oh no") }, 5, "panicked: oh no"},
		"an error as a novel": {func(context.Context, message.Message) error {
			return consumer.Reject(errors.New(strings.Repeat("ü", 9999)))
		}, 1, strings.Repeat("ü", 1000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t)
			b.bind()
			r := start(t, b.config(c.handler))
			want := whole()
			want.Headers["x-death"] = "left by an earlier dead-lettering"
			b.publish(want)
			if o := r.observe(1)[0]; o.Outcome != consumer.Quarantined || int64(o.Attempts) != c.attempts || o.Err == nil {
				t.Errorf("observed %+v", o)
			}
			d := b.get(b.topology.Quarantine())
			if text, _ := d.Headers[wire.HeaderError].(string); !strings.Contains(text, c.says) || len(text) > 2000 {
				t.Errorf("header says %q, want %q", text, c.says)
			}
			if d.Headers[wire.HeaderAttempts] != c.attempts || d.Headers[wire.HeaderQueue] != b.queue {
				t.Errorf("headers say %v", d.Headers)
			}
			stack, _ := d.Headers[wire.HeaderStack].(string)
			if panicked := name == "panicked"; panicked != strings.Contains(stack, "handle_test.go") || len(stack) > 8<<10 {
				t.Errorf("stack %q", stack)
			}
			text, _ := d.Headers[wire.HeaderQuarantined].(string)
			if at, err := time.Parse(time.RFC3339, text); err != nil || time.Since(at) > time.Minute {
				t.Errorf("quarantined at %q, want now", text)
			}
			if d.DeliveryMode != amqp.Persistent || d.RoutingKey != key {
				t.Errorf("mode %d, routing key %q", d.DeliveryMode, d.RoutingKey)
			}
			delete(want.Headers, "x-death")
			m := b.topology.Message(&d)
			if lines := m.Journey.History; int64(len(lines)) != c.attempts || !strings.Contains(lines[0], b.queue+": ") {
				t.Errorf("history %q, want a line for each of %d attempts", lines, c.attempts)
			}
			m.Journey.Queue, m.Journey.Attempts, m.Journey.History = "", 0, nil
			if !reflect.DeepEqual(m, want) || !bytes.Equal(m.Body, want.Body) {
				t.Errorf("got  %+v\nwant %+v", m, want)
			}
			r.stop()
			b.wantHeld(b.queue, 0)
		})
	}
}
