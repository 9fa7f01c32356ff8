// Package spans makes the spans of a delivery: one from when the message is here until the
// consumer is done with it, and within it one of each call of the handler. docs/traces.md shows
// in which trace they are.
package spans

import (
	"context"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/internal/tracing"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
)

// Delivery is the span of a delivery. The zero value is none, for what is not traced.
type Delivery struct {
	tracer *tracing.Tracer
	queue  string
	span   trace.Span
	// untraced is the publisher's context where that says that it is not to be traced.
	untraced trace.SpanContext
}

// StartDelivery begins the span of a delivery from queue: of m, as d has brought it. tracer may be nil.
func StartDelivery(tracer *tracing.Tracer, queue string, d *amqp.Delivery, m *message.Message, lateness time.Duration) Delivery {
	if tracer == nil {
		return Delivery{}
	}
	step := tracing.Step{
		Name: tracing.Deliver, Kind: trace.SpanKindConsumer, Type: semconv.MessagingOperationTypeProcess, Destination: queue,
	}
	origin, last := tracing.Origin(m.Headers), tracing.Last(m.Journey.Step)
	switch {
	case !origin.IsSampled() && !last.IsSampled():
		if origin.IsValid() {
			return Delivery{untraced: origin}
		}
		step.Alone = true // it has not been traced so far
	case last.IsSampled() && promoted(m.Journey.Path):
		step.Parent, step.Links = last, []trace.SpanContext{origin}
	case !hasWaited(d, m):
		step.Parent = origin
	default:
		step.Alone, step.Links = true, []trace.SpanContext{last, origin}
	}
	_, span := tracer.Start(context.Background(), step, m)
	if span.IsRecording() {
		span.SetAttributes(tracing.Path.String(string(m.Journey.Path)))
		if !m.Journey.Due.IsZero() {
			span.SetAttributes(tracing.LatenessMS.Int64(lateness.Milliseconds()))
		}
	}
	return Delivery{tracer: tracer, queue: queue, span: span}
}

// promoted reports whether a message has come out of Redis, so that the last step was
// to promote it, less than a lead ago.
func promoted(path message.Path) bool {
	return strings.HasPrefix(string(path), string(message.PathParked))
}

// hasWaited reports whether a message that no bridge has promoted came through a tier, or
// out of quarantine.
func hasWaited(d *amqp.Delivery, m *message.Message) bool {
	if m.Journey.Path == "" { // a foreign client's; the broker says where it has waited
		return d.Headers["x-death"] != nil
	}
	return m.Journey.Path != message.PathDirect
}

// Within returns ctx within the span.
func (d Delivery) Within(ctx context.Context) context.Context {
	switch {
	case d.span != nil:
		return trace.ContextWithSpan(ctx, d.span)
	case d.untraced.IsValid():
		return trace.ContextWithRemoteSpanContext(ctx, d.untraced)
	}
	return ctx
}

// Step is the span as the message takes it along to its next attempt, or to quarantine.
func (d Delivery) Step() wire.Span {
	if d.span == nil || !d.span.SpanContext().IsSampled() {
		return wire.Span{}
	}
	return tracing.SpanOf(d.span)
}

// StartHandling begins the span of one call of the handler with m, which ended ends. An outcome
// other than "" goes with it.
func (d Delivery) StartHandling(ctx context.Context, m *message.Message, attempt int) (handling context.Context, ended func(outcome string, err error)) {
	ctx = d.Within(ctx)
	if d.span == nil || !d.span.IsRecording() {
		return ctx, func(string, error) {}
	}
	ctx, span := d.tracer.Start(ctx, tracing.Step{
		Name: tracing.Handle, Kind: trace.SpanKindInternal, Type: semconv.MessagingOperationTypeProcess, Destination: d.queue,
	}, m)
	span.SetAttributes(tracing.Attempt.Int(attempt))
	return ctx, func(outcome string, err error) {
		if outcome != "" {
			span.SetAttributes(tracing.Outcome.String(outcome))
		}
		tracing.End(span, err)
	}
}

// End ends the span of the delivery.
func (d Delivery) End(outcome string, err error) {
	if d.span == nil {
		return
	}
	d.span.SetAttributes(tracing.Outcome.String(outcome))
	tracing.End(d.span, err)
}
