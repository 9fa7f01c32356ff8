package consumer

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/internal/tracing"
	"github.com/delaybridge/delaybridge/message"
)

// Trace returns what makes the spans of a delivery that is handled once.
func Trace(provider trace.TracerProvider, d *amqp.Delivery) func() {
	s := &session{run: &run{Consumer: &Consumer{config: Config{Queue: "billing"}, tracer: tracing.New(provider, "consumer")}}}
	o := Observation{Message: message.FromBridge(d), Outcome: Acknowledged}
	ctx := context.Background()
	return func() {
		story := s.startDelivery(d, &o)
		_, handled := story.startHandling(ctx, &o)
		handled(nil)
		story.end(&o)
	}
}
