package consumer

import (
	"context"
	"errors"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/consumer/internal/once"
	"github.com/delaybridge/delaybridge/internal/tracing"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
)

// delivered is the span of a delivery. The zero value is none, for what is not traced.
type delivered struct {
	session *session
	span    trace.Span
	// untraced is the publisher's context where that says that it is not to be traced.
	untraced trace.SpanContext
}

// startDelivery begins the span of a delivery, from when the message is here until the
// consumer is done with it.
func (s *session) startDelivery(d *amqp.Delivery, o *Observation) delivered {
	if s.tracer == nil {
		return delivered{}
	}
	m := &o.Message
	step := tracing.Step{
		Name: tracing.Deliver, Kind: trace.SpanKindConsumer, Type: semconv.MessagingOperationTypeProcess, Destination: s.config.Queue,
	}
	origin, last := tracing.Origin(m.Headers), tracing.Last(m.Journey.Step)
	switch {
	case !origin.IsSampled() && !last.IsSampled():
		if origin.IsValid() {
			return delivered{untraced: origin}
		}
		step.Alone = true // nobody has traced it so far
	case last.IsSampled() && promoted(m.Journey.Path):
		step.Parent, step.Links = last, []trace.SpanContext{origin}
	case !hasWaited(d, m):
		step.Parent = origin
	default:
		step.Alone, step.Links = true, []trace.SpanContext{last, origin}
	}
	_, span := s.tracer.Start(context.Background(), step, m)
	if span.IsRecording() {
		span.SetAttributes(tracing.Path.String(string(m.Journey.Path)))
		if !m.Journey.Due.IsZero() {
			span.SetAttributes(tracing.LatenessMS.Int64(o.Lateness.Milliseconds()))
		}
	}
	return delivered{session: s, span: span}
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

// within returns ctx within the span.
func (d delivered) within(ctx context.Context) context.Context {
	switch {
	case d.span != nil:
		return trace.ContextWithSpan(ctx, d.span)
	case d.untraced.IsValid():
		return trace.ContextWithRemoteSpanContext(ctx, d.untraced)
	}
	return ctx
}

// step is the span as the message takes it along to its next attempt, or to quarantine.
func (d delivered) step() wire.Span {
	if d.span == nil || !d.span.SpanContext().IsSampled() {
		return wire.Span{}
	}
	return tracing.SpanOf(d.span)
}

// startHandling begins the span of one call of the handler, which ended ends.
func (d delivered) startHandling(ctx context.Context, o *Observation) (handling context.Context, ended func(error)) {
	ctx = d.within(ctx)
	if d.span == nil || !d.span.IsRecording() {
		return ctx, func(error) {}
	}
	ctx, span := d.session.tracer.Start(ctx, tracing.Step{
		Name: tracing.Handle, Kind: trace.SpanKindInternal, Type: semconv.MessagingOperationTypeProcess, Destination: d.session.config.Queue,
	}, &o.Message)
	span.SetAttributes(tracing.Attempt.Int(o.Attempts))
	return ctx, func(err error) {
		if errors.Is(err, once.ErrDuplicate) {
			err = nil
			span.SetAttributes(tracing.Outcome.String(string(Duplicate)))
		}
		tracing.End(span, err)
	}
}

// end ends the span of the delivery.
func (d delivered) end(o *Observation) {
	if d.span == nil {
		return
	}
	d.span.SetAttributes(tracing.Outcome.String(string(o.Outcome)))
	var err error
	if o.Outcome == Quarantined || o.Outcome == Returned {
		err = o.Err
	}
	tracing.End(d.span, err)
}
