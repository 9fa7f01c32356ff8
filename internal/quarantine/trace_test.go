package quarantine_test

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/internal/quarantine"
	"github.com/delaybridge/delaybridge/internal/wire"
)

// Thousands of messages that nobody traces are replayed without a span or an allocation
// for one, with and without a provider.
func TestReplayingUntracedMessagesAllocatesNothing(t *testing.T) { //nolint:paralleltest // it counts the allocations of the process
	const sampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	spans := tracetest.NewInMemoryExporter()
	on := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	for name, test := range map[string]struct {
		provider trace.TracerProvider
		headers  amqp.Table
	}{
		"off":                   {nil, amqp.Table{"traceparent": sampled}},
		"on, without a context": {on, amqp.Table{"shop": "berlin"}},
	} {
		if n := testing.AllocsPerRun(1000, quarantine.ReplayingSpan(test.provider, test.headers)); n > 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
	if made := spans.GetSpans(); len(made) > 0 {
		t.Errorf("got spans %v", made)
	}
	// What is sampled does have one, which the message takes along.
	headers := amqp.Table{"traceparent": sampled}
	quarantine.ReplayingSpan(on, headers)()
	made := spans.GetSpans()
	if len(made) != 1 || len(made[0].Links) != 1 || made[0].Parent.IsValid() {
		t.Fatalf("got spans %v, want one that begins a trace, with a link", made)
	}
	if got, want := wire.SpanIn(headers).Traceparent[36:52], made[0].SpanContext.SpanID().String(); got != want {
		t.Errorf("the message carries span %s, want %s", got, want)
	}
}
