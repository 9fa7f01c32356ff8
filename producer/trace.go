package producer

import (
	"context"
	"errors"
	"time"

	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/internal/tracing"
	"github.com/delaybridge/delaybridge/message"
)

// chooseTraced is choose within a span, whose context travels with the message. One that
// has a context already keeps it, and the span links to that.
func (p *Producer) chooseTraced(ctx context.Context, entry *routes, m message.Message, w message.When, now time.Time) (Receipt, error) {
	step := tracing.Step{
		Name: tracing.Publish, Kind: trace.SpanKindProducer, Type: semconv.MessagingOperationTypeSend,
		// Whichever way the message takes from here: to the application there is but this.
		Destination: p.config.Topology.EntryExchangeOf(m.Entry),
	}
	if origin := tracing.Origin(m.Headers); origin.IsValid() {
		step.Kind, step.Links = trace.SpanKindClient, []trace.SpanContext{origin}
	}
	ctx, span := p.tracer.Start(ctx, step, &m)
	m.Headers = tracing.Carry(span, m.Headers)
	receipt, err := p.choose(ctx, entry, &m, w, now)
	if span.IsRecording() && err == nil {
		span.SetAttributes(tracing.Path.String(string(receipt.Path)), tracing.Due.String(receipt.Due.UTC().Format(time.RFC3339Nano)))
		if receipt.Duplicate {
			span.SetAttributes(tracing.Outcome.String("duplicate"))
		}
	}
	if errors.Is(err, ErrCancelled) { // as the canceller wanted
		span.SetAttributes(tracing.Outcome.String("cancelled before"))
		tracing.End(span, nil)
		return receipt, err
	}
	tracing.End(span, err)
	return receipt, err
}
