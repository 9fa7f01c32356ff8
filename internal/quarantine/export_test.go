package quarantine

import (
	amqp "github.com/rabbitmq/amqp091-go"
	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/tracing"
)

// ReplayingSpan returns what begins and ends the span of a message that is replayed with
// these headers.
func ReplayingSpan(provider trace.TracerProvider, headers amqp.Table) func() {
	tracer := tracing.New(provider, tracedAs)
	out := broker.Outgoing{Exchange: "retry", RoutingKey: "billing", Publishing: amqp.Publishing{MessageId: "o-1", Headers: headers}}
	return func() { startReplaying(tracer, &out)(nil) }
}
