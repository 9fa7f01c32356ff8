package consumer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/topology"
)

func describe(t testing.TB, c topology.Config) *topology.Topology {
	t.Helper()
	d, err := topology.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func acknowledge(context.Context, message.Message) error { return nil }

func TestNewNamesEveryFault(t *testing.T) {
	t.Parallel()
	_, err := consumer.New(consumer.Config{
		AMQPURL: "http://localhost", Bind: []string{""}, Concurrency: -1, Prefetch: 1 << 16,
		Retry:        consumer.Retry{Base: -1, Factor: 0.5, Cap: -2, Jitter: 2, Attempts: -1},
		DrainTimeout: -1, StartWithin: -1, RepairEvery: -1, Middleware: []func(consumer.Handler) consumer.Handler{nil},
	})
	if !errors.Is(err, consumer.ErrConfiguration) {
		t.Errorf("got %v, want ErrConfiguration", err)
	}
	for _, want := range []string{
		"Handler is missing", "Queue is empty", "Topology is missing", "binding key", "Concurrency -1",
		"Prefetch 65536", "Retry.Base -1ns", "Retry.Factor 0.5", "Retry.Cap -2ns", "Retry.Jitter 2", "Retry.Attempts -1", "Middleware", "DrainTimeout", "StartWithin", "RepairEvery", "amqp://user:password@host",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
}

func TestNewChecksTheQueue(t *testing.T) {
	t.Parallel()
	d := describe(t, topology.Config{Entries: []topology.Entry{
		{Name: "orders", Kind: amqp.ExchangeTopic}, {Name: "audit", Kind: amqp.ExchangeFanout}, {Name: "regions", Kind: amqp.ExchangeHeaders},
	}})
	for name, c := range map[string]struct {
		queue   string
		bind    []string
		delayer consumer.Delayer
		single  bool
		entry   string
		args    map[string]any
		want    string // part of the error, or empty where there is none
	}{
		"retries of unrouted":            {queue: d.Unrouted(), delayer: &republisher{}, want: "leave the Delayer out"},
		"somebody else's, single active": {queue: "billing", single: true, want: "SingleActive"},
		"one's own, single active":       {queue: "billing", bind: []string{"#"}, delayer: &republisher{}, single: true},
		"one's own":                      {queue: "billing"},
		"unrouted":                       {queue: d.Unrouted()},
		"quarantine":                     {queue: d.Quarantine()},
		"a tier":                         {queue: d.Tiers()[0].Name, want: "before they are due"},
		"a lane":                         {queue: d.Lane(time.Second, 0), want: "before they are due"},
		"the inbox":                      {queue: d.Inbox(), want: "before they are due"},
		"too long":                       {queue: strings.Repeat("q", 256), want: "too long"},
		"the broker's":                   {queue: "amq.billing", bind: []string{"#"}, want: "belong to the broker"},
		"an entry of its own":            {queue: "billing", bind: []string{"#"}, entry: "orders"},
		"an entry's, bound by its owner": {queue: "billing", entry: "orders", want: "as its owner has bound it"},
		"an entry that is not there":     {queue: "billing", bind: []string{"#"}, entry: "order", want: `Entry "order"`},
		"no key, of all":                 {queue: "billing", bind: []string{""}, entry: "audit"},
		"no key, of a topic":             {queue: "billing", bind: []string{""}, entry: "orders", want: "binding key"},
		"arguments alone":                {queue: "billing", entry: "regions", args: map[string]any{"region": "eu"}},
		"arguments that no topic has":    {queue: "billing", bind: []string{"#"}, entry: "orders", args: map[string]any{"region": "eu"}, want: "type topic"},
		"arguments of no AMQP type":      {queue: "billing", entry: "regions", args: map[string]any{"region": struct{}{}}, want: "BindArguments"},
		"a binding too long":             {queue: "billing", bind: []string{strings.Repeat("k", 256)}, want: "binding key"},
	} {
		_, err := consumer.New(consumer.Config{
			AMQPURL: "amqp://localhost", Topology: d, Queue: c.queue, Bind: c.bind, Handler: consumer.HandlerFunc(acknowledge),
			Delayer: c.delayer, SingleActive: c.single, Entry: c.entry, BindArguments: c.args,
		})
		if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestNewKeepsThePasswordSecret(t *testing.T) {
	t.Parallel()
	_, err := consumer.New(consumer.Config{
		AMQPURL: "amqp://user:secret@host:port/", Topology: describe(t, topology.Config{}), Queue: "q", Handler: consumer.HandlerFunc(acknowledge),
	})
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v, want an error without the password", err)
	}
}

func TestHandlersErrorsKeepTheirCause(t *testing.T) {
	t.Parallel()
	cause := errors.New("no such order")
	for _, err := range []error{consumer.Reject(cause), consumer.RetryAfter(time.Second, cause), consumer.RetryForever(cause), &consumer.PanicError{Value: cause}} {
		if !errors.Is(err, cause) || !strings.Contains(err.Error(), cause.Error()) {
			t.Errorf("%T hides its cause: %v", err, err)
		}
	}
	if consumer.Reject(nil) == nil || consumer.RetryAfter(0, nil) == nil {
		t.Error("without a cause there is no error")
	}
}
