package producer_test

import (
	"context"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer"
)

const clients = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// The context of the span travels with the message, unless that has one already, or no room.
func TestMessageCarriesItsSpan(t *testing.T) {
	t.Parallel()
	crowded := amqp.Table{"big": strings.Repeat("x", wire.MaxHeaderBytes-20)}
	many := amqp.Table{}
	for i := range wire.MaxHeaderElements {
		many[strconv.Itoa(i)] = true
	}
	for name, test := range map[string]struct {
		headers amqp.Table
		want    string // traceparent; "span" is the span's own
		links   int
	}{
		"no headers":         {nil, "span", 0},
		"headers":            {amqp.Table{"shop": "berlin"}, "span", 0},
		"a context":          {amqp.Table{"traceparent": clients}, clients, 1},
		"a context as bytes": {amqp.Table{"traceparent": []byte(clients)}, clients, 1},
		"no context":         {amqp.Table{"traceparent": "shop"}, "shop", 0},
		"no room":            {crowded, "", 0},
		"no room for one":    {many, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spans := tracetest.NewInMemoryExporter()
			store := &parker{ticket: message.Ticket{Parking: message.Parked}}
			p := newProducer(t, producer.Config{Parker: store, TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))})
			m := order("o-1")
			m.Headers = test.headers
			before := maps.Clone(m.Headers)
			if _, err := p.Publish(t.Context(), m, message.After(7*time.Second)); err != nil {
				t.Fatal(err)
			}
			if !maps.EqualFunc(m.Headers, before, func(a, b any) bool { return len(text(a)) == len(text(b)) }) {
				t.Errorf("the caller's headers were changed: %v", m.Headers)
			}
			made := spans.GetSpans()
			if len(made) != 1 || made[0].Name != "publish unit.entry" || len(made[0].Links) != test.links {
				t.Fatalf("got spans %v, want one with %d links", made, test.links)
			}
			if test.want == "span" {
				test.want = "00-" + made[0].SpanContext.TraceID().String() + "-" + made[0].SpanContext.SpanID().String() + "-01"
			}
			if got := text(store.parked[0].Headers["traceparent"]); got != test.want {
				t.Errorf("traceparent %q, want %q", got, test.want)
			}
			if err := store.parked[0].Validate(); err != nil {
				t.Errorf("what is published is not valid: %v", err)
			}
		})
	}
}

func text(value any) string {
	if b, ok := value.([]byte); ok {
		return string(b)
	}
	s, _ := value.(string)
	return s
}

// What the caller does not trace is not traced, and whoever meets the message is told so.
func TestNotSampledGoesAlong(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewInMemoryExporter()
	store := &parker{ticket: message.Ticket{Parking: message.Parked}}
	p := newProducer(t, producer.Config{Parker: store, TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))})
	caller := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	if _, err := p.Publish(trace.ContextWithSpanContext(t.Context(), caller), order("o-1"), message.After(7*time.Second)); err != nil {
		t.Fatal(err)
	}
	got := text(store.parked[0].Headers["traceparent"])
	if !strings.HasPrefix(got, "00-"+caller.TraceID().String()) || !strings.HasSuffix(got, "-00") || len(spans.GetSpans()) > 0 {
		t.Errorf("traceparent %q and %d spans, want the caller's trace, not sampled, and none", got, len(spans.GetSpans()))
	}
}

// silent is a Parker that allocates nothing.
type silent struct{}

func (silent) Park(context.Context, *message.Message, message.When) (message.Ticket, error) {
	return message.Ticket{Parking: message.Parked}, nil
}

// Without a provider a publish allocates what it did before there were traces: the
// message itself, which the parker may keep. The context has a deadline, as otherwise
// Publish makes one.
func TestWithoutTracesNothingIsAllocated(t *testing.T) { //nolint:paralleltest // it counts the allocations of the process
	p := newProducer(t, producer.Config{Parker: silent{}})
	m := order("o-1")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if n := testing.AllocsPerRun(1000, func() { _, _ = p.Publish(ctx, m, message.After(7*time.Second)) }); n > 1 {
		t.Errorf("%v allocations, want 1", n)
	}
}
