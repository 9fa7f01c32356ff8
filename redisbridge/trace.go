package redisbridge

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/internal/tracing"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
)

const tracedAs = "redisbridge"

// parkTraced parks within a span.
func (p *Park) parkTraced(
	ctx context.Context, step tracing.Step, m *message.Message, w message.When, begin store.Beginning,
) (message.Ticket, error) {
	step.Name = tracing.Park
	ctx, span := p.tracer.Start(ctx, step, m)
	ticket, err := p.store.Park(ctx, m, w, begin)
	if err == nil {
		span.SetAttributes(
			semconv.DBSystemNameRedis, tracing.Outcome.String(parkingText(ticket.Parking)),
			tracing.Due.String(ticket.Due.UTC().Format(time.RFC3339Nano)),
		)
	}
	tracing.End(span, err)
	return ticket, err
}

// parkHere is the step of a message that comes from this process.
func (p *Park) parkHere() tracing.Step {
	return tracing.Step{Kind: trace.SpanKindClient, Type: semconv.MessagingOperationTypeSend, Destination: p.config.Topology.Prefix()}
}

// parkEntry parks a message of the inbox, within a span of its publisher's trace where it
// carries that of one which is sampled.
func (b *Bridge) parkEntry(ctx context.Context, m *message.Message, w message.When, begin store.Beginning) (message.Ticket, error) {
	if b.tracer != nil {
		if origin := tracing.Origin(m.Headers); origin.IsSampled() {
			step := tracing.Step{
				Kind: trace.SpanKindConsumer, Type: semconv.MessagingOperationTypeProcess,
				Destination: b.config.Topology.Inbox(), Parent: origin,
			}
			return b.park.parkTraced(ctx, step, m, w, begin)
		}
	}
	return b.park.store.Park(ctx, m, w, begin)
}

// traceChange notes down the span of what was done to a message, once it is known which
// trace that has: the span is within the caller's, where that is sampled, and links to the
// publisher's. Where neither is sampled there is none.
func (p *Park) traceChange(ctx context.Context, step tracing.Step, id string, headers amqp.Table, c Change, err error) {
	origin := tracing.Origin(headers)
	within := trace.SpanContextFromContext(ctx).IsSampled()
	if !within && !origin.IsSampled() {
		return
	}
	step.Kind, step.Destination, step.Alone = trace.SpanKindClient, p.config.Topology.Prefix(), !within
	step.Links = []trace.SpanContext{origin}
	_, span := p.tracer.Start(ctx, step, &message.Message{ID: id})
	if err == nil {
		span.SetAttributes(semconv.DBSystemNameRedis, tracing.Outcome.String(string(c.Outcome)))
		if !c.Due.IsZero() {
			span.SetAttributes(tracing.Due.String(c.Due.UTC().Format(time.RFC3339Nano)))
		}
	}
	tracing.End(span, err)
}

func parkingText(p message.Parking) string {
	switch p {
	case message.Parked:
		return "parked"
	case message.ParkedBefore:
		return "parked before"
	case message.Overdue:
		return "overdue"
	case message.CancelledBefore:
		return "cancelled before"
	case message.Conflict:
		return "conflict"
	}
	return "unknown"
}
