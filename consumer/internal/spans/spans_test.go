package spans_test

import (
	"context"
	"slices"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/consumer/internal/spans"
	"github.com/delaybridge/delaybridge/internal/tracing"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
)

const (
	origin = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	last   = "00-1af7651916cd43dd8448eb211c80319c-c7ad6b7169203331-01"
)

// handledOnce returns what makes the spans of a delivery that is handled once.
func handledOnce(provider trace.TracerProvider, d *amqp.Delivery) func() {
	tracer, m := tracing.New(provider, "consumer"), message.FromBridge(d)
	ctx := context.Background()
	return func() {
		delivery := spans.StartDelivery(tracer, "billing", d, &m, 0)
		_, handled := delivery.StartHandling(ctx, &m, 0)
		handled("", nil)
		delivery.End("acknowledged", nil)
	}
}

// Where a message has waited, its delivery begins a trace with a link to its publisher;
// what was promoted is delivered in the trace of that, and what came at once in the
// publisher's.
func TestParentOfADelivery(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		headers amqp.Table
		parent  string // a trace ID, or "" for none
		links   []string
	}{
		"parked": {amqp.Table{
			"traceparent": origin, wire.HeaderStepTraceparent: last, wire.HeaderPath: "parked, then lane 1m",
		}, last[3:35], []string{origin[3:35]}},
		"parked by a bridge that traces nothing": {amqp.Table{
			"traceparent": origin, wire.HeaderPath: "parked, then lane 1m",
		}, "", []string{origin[3:35]}},
		"retried": {amqp.Table{
			"traceparent": origin, wire.HeaderStepTraceparent: last, wire.HeaderPath: wire.RetryPath,
		}, last[3:35], []string{origin[3:35]}},
		"replayed": {amqp.Table{
			"traceparent": origin, wire.HeaderStepTraceparent: last, wire.HeaderPath: wire.ReplayPath,
		}, "", []string{last[3:35], origin[3:35]}},
		"tier": {amqp.Table{
			"traceparent": origin, wire.HeaderPath: "tier 1m",
		}, "", []string{origin[3:35]}},
		"tier, from a foreign client": {amqp.Table{
			"traceparent": origin, "x-death": []any{},
		}, "", []string{origin[3:35]}},
		"at once": {amqp.Table{
			"traceparent": origin, wire.HeaderPath: string(message.PathDirect),
		}, origin[3:35], nil},
		"at once, from a foreign client": {amqp.Table{"traceparent": origin}, origin[3:35], nil},
		"untraced":                       {amqp.Table{}, "", nil},
		"nonsense":                       {amqp.Table{"traceparent": int64(7), wire.HeaderStepTraceparent: "x"}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exporter := tracetest.NewInMemoryExporter()
			handledOnce(sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)), &amqp.Delivery{MessageId: "o-1", Headers: test.headers})()
			made := exporter.GetSpans()
			if len(made) != 2 || made[0].Name != "handle billing" || made[1].Name != "deliver billing" ||
				made[0].Parent.SpanID() != made[1].SpanContext.SpanID() {
				t.Fatalf("got spans %v, want deliver and within it handle", made)
			}
			parent := ""
			if made[1].Parent.IsValid() {
				parent = made[1].Parent.TraceID().String()
			}
			if parent != test.parent {
				t.Errorf("parent in trace %q, want %q", parent, test.parent)
			}
			var links []string
			for _, link := range made[1].Links {
				links = append(links, link.SpanContext.TraceID().String())
			}
			if !slices.Equal(links, test.links) {
				t.Errorf("links to traces %q, want %q", links, test.links)
			}
		})
	}
}

// Neither a consumer without a provider, nor a message whose publisher is not traced,
// makes a span or costs an allocation more than the handler's context.
func TestUntracedDeliveriesCostNothing(t *testing.T) { //nolint:paralleltest // it counts the allocations of the process
	off := handledOnce(nil, &amqp.Delivery{MessageId: "o-1", Headers: amqp.Table{"traceparent": origin}})
	if n := testing.AllocsPerRun(1000, off); n > 0 {
		t.Errorf("%v allocations, want 0", n)
	}
	exporter := tracetest.NewInMemoryExporter()
	handledOnce(sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)), &amqp.Delivery{
		MessageId: "o-1", Headers: amqp.Table{"traceparent": origin[:53] + "00"},
	})()
	if made := exporter.GetSpans(); len(made) > 0 {
		t.Errorf("got spans %v, want none", made)
	}
}
