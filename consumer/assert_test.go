package consumer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology"
)

// bindingKeys returns the keys by which the consumer's queue is bound, sorted.
func (b *broker) bindingKeys() []string {
	b.t.Helper()
	var bindings []struct {
		Queue string `json:"destination"`
		Key   string `json:"routing_key"`
	}
	answer := b.manage(http.MethodGet, "/api/exchanges/"+b.vhost+"/"+b.topology.ReadyExchange()+"/bindings/source", "")
	if err := json.Unmarshal(answer, &bindings); err != nil {
		b.t.Fatal(err)
	}
	var keys []string
	for _, binding := range bindings {
		if binding.Queue == b.queue {
			keys = append(keys, binding.Key)
		}
	}
	slices.Sort(keys)
	return keys
}

// wantBound waits until the consumer's queue is bound by exactly these keys.
func (b *broker) wantBound(keys ...string) {
	b.t.Helper()
	eventually(b.t, func() error {
		if bound := b.bindingKeys(); !slices.Equal(bound, keys) {
			return fmt.Errorf("bound by %q, want %q", bound, keys)
		}
		return nil
	})
}

// said counts the log records whose message contains a text.
type said struct {
	slog.Handler
	text string
	seen chan struct{}
}

// listenFor returns a logger, and what hears of each record with text.
func listenFor(text string) (*slog.Logger, <-chan struct{}) {
	h := &said{Handler: slog.DiscardHandler, text: text, seen: make(chan struct{}, 1)}
	return slog.New(h), h.seen
}

func (h *said) Enabled(context.Context, slog.Level) bool { return true }
func (h *said) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h *said) WithGroup(string) slog.Handler            { return h }

func (h *said) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, h.text) {
		select {
		case h.seen <- struct{}{}:
		default:
		}
	}
	return nil
}

func TestDeletedBindingIsPutBack(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := b.config(acknowledge)
	c.Bind, c.RepairEvery = []string{key, "order.paid"}, 100*time.Millisecond
	r := start(t, c)
	b.wantConsumer()
	if err := b.channel().QueueUnbind(b.queue, key, b.topology.ReadyExchange(), nil); err != nil {
		t.Fatal(err)
	}
	b.wantBound("order.paid", key)
	b.wantRouted(r)
}

// wantRouted publishes until something arrives: a binding that is listed need not route
// yet, and what comes before it does is in the unrouted queue.
func (b *broker) wantRouted(r *running) {
	b.t.Helper()
	eventually(b.t, func() error {
		b.publish(numbered(1)...)
		if len(r.observations()) == 0 {
			return errors.New("nothing is routed to the queue")
		}
		return nil
	})
}

// The deletion of the ready exchange takes all bindings along, and while it is
// missing nothing can be bound to it; that does not end the consumer.
// A binding to the ready exchange of an entry is put back like one to the default one.
func TestQueueOfAnEntry(t *testing.T) {
	t.Parallel()
	const entry = "regions"
	b := newBareBroker(t)
	config := small(b.topology.Prefix())
	config.Entries = []topology.Entry{{Name: entry, Kind: amqp.ExchangeHeaders}}
	b.topology = describe(t, config)
	b.apply()
	c := b.config(acknowledge)
	c.Bind, c.Entry, c.BindArguments, c.RepairEvery = nil, entry, map[string]any{"x-match": "any", "region": "eu", "vip": true}, 20*time.Millisecond
	r := start(t, c)
	<-r.ready
	ready := b.topology.ReadyExchangeOf(entry)
	ch := b.channel()
	publish := func(id, region string) error {
		return ch.Publish(ready, "", true, false, amqp.Publishing{MessageId: id, Headers: amqp.Table{"region": region}})
	}
	if err := errors.Join(publish("abroad", "us"), publish("at home", "eu")); err != nil {
		t.Fatal(err)
	}
	if o := r.observe(1)[0]; o.Message.ID != "at home" {
		t.Errorf("got %q", o.Message.ID)
	}
	if d := b.get(b.topology.Unrouted()); d.MessageId != "abroad" {
		t.Errorf("%q is unrouted", d.MessageId)
	}
	if err := ch.QueueUnbind(b.queue, "", ready, amqp.Table(c.BindArguments)); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if err := publish("again", "eu"); err != nil {
			t.Fatal(err)
		}
		if seen := r.observations(); len(seen) < 2 {
			return errors.New("it is routed nowhere")
		}
		return nil
	})
}

func TestReadyExchangeDeletedAndPutBack(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := b.config(acknowledge)
	c.RepairEvery = 100 * time.Millisecond
	logger, failed := listenFor("could not be asserted")
	c.Logger = logger
	r := start(t, c)
	b.wantConsumer()
	// Bound while the exchange is being deleted, as a consumer may, too: see run.bind.
	binding, bound := b.channel(), make(chan struct{})
	go func() {
		defer close(bound)
		for binding.QueueBind(b.queue, key, b.topology.ReadyExchange(), false, nil) == nil {
		}
	}()
	if err := b.channel().ExchangeDelete(b.topology.ReadyExchange(), false, false); err != nil {
		t.Fatal(err)
	}
	<-bound
	select {
	case <-failed:
	case <-time.After(patience):
		t.Fatal("the consumer does not say that it cannot bind its queue")
	}
	b.apply() // as a bridge does
	b.wantRouted(r)
	b.wantBound(key)
	r.stop()
}

// What could not be put back is tried again before the next turn.
func TestFailedAssertionIsSoonRepeated(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := b.config(acknowledge)
	c.RepairEvery = 8 * time.Second
	logger, failed := listenFor("could not be asserted")
	c.Logger = logger
	start(t, c)
	b.wantConsumer()
	if err := b.channel().ExchangeDelete(b.topology.ReadyExchange(), false, false); err != nil {
		t.Fatal(err)
	}
	var first time.Time
	for n := range 4 {
		select {
		case <-failed:
		case <-time.After(patience):
			t.Fatalf("after %d failures nothing is tried any more", n)
		}
		if n == 0 {
			first = time.Now()
		}
	}
	if took := time.Since(first); took > 2*c.RepairEvery {
		t.Errorf("three more attempts took %v, where an assertion is due every %v", took, c.RepairEvery)
	}
	b.apply()
	b.wantBound(key)
}

// The queue may be deleted between the consumer's own requests: it has many
// here, and loses the queue while it is still binding it.
func TestQueueDeletedWhileItIsBeingBound(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := b.config(acknowledge)
	for i := range 300 {
		c.Bind = append(c.Bind, fmt.Sprintf("%s.%d", key, i))
	}
	logger, interrupted := listenFor("consuming was interrupted")
	c.Logger = logger
	r := start(t, c)
	for range 3 {
		eventually(t, func() error {
			if len(b.bindingKeys()) == 0 {
				return errors.New("the queue has no binding yet")
			}
			return nil
		})
		if _, err := b.channel().QueueDelete(b.queue, false, false, false); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-interrupted: // says so once
	case <-time.After(patience):
		t.Fatal("nothing was interrupted")
	}
	b.wantConsumer()
	r.stop()
}
