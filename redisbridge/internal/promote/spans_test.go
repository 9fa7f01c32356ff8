package promote_test

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/redisbridge/internal/promote"
)

// A flood of messages that nobody traces costs a bridge nothing, with and without a
// provider: no span, no allocation.
func TestPromotingUntracedMessagesAllocatesNothing(t *testing.T) { //nolint:paralleltest // it counts the allocations of the process
	spans := tracetest.NewInMemoryExporter()
	for name, test := range map[string]struct {
		provider trace.TracerProvider
		headers  amqp.Table
	}{
		"off":                   {nil, amqp.Table{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}},
		"on, without a context": {sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)), amqp.Table{"shop": "berlin"}},
	} {
		promote := promote.PromotingSpan(test.provider, test.headers)
		if n := testing.AllocsPerRun(1000, promote); n > 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
	if made := spans.GetSpans(); len(made) > 0 {
		t.Errorf("got spans %v", made)
	}
	// And what is sampled does have one, or this test would show nothing.
	promote.PromotingSpan(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)),
		amqp.Table{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})()
	if made := spans.GetSpans(); len(made) != 1 {
		t.Errorf("got spans %v, want one", made)
	}
}
