package promote

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/tracing"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
)

// startPromoting begins the span of a message that has waited in Redis, and so a trace
// that links to the publisher's span, and of a retry to the attempt before. The message
// takes the span's context along. It returns nil where there is nothing to trace.
func (s *shard) startPromoting(out *broker.Outgoing, path message.Path) trace.Span {
	if s.p.config.Tracer == nil {
		return nil
	}
	headers := out.Publishing.Headers
	origin, last := tracing.Origin(headers), trace.SpanContext{}
	if path == wire.RetryPath {
		last = tracing.Last(wire.SpanIn(headers))
	}
	if !origin.IsSampled() && !last.IsSampled() {
		return nil
	}
	m := message.Message{ID: out.Publishing.MessageId, RoutingKey: out.RoutingKey, Body: out.Publishing.Body}
	_, span := s.p.config.Tracer.Start(context.Background(), tracing.Step{
		Name: tracing.Promote, Kind: trace.SpanKindProducer, Type: semconv.MessagingOperationTypeSend,
		Destination: out.Exchange, Alone: true, Links: []trace.SpanContext{last, origin},
	}, &m)
	if !span.SpanContext().IsSampled() {
		return nil // the next one is to go by the publisher's
	}
	due, _ := headers[wire.HeaderDue].(string)
	span.SetAttributes(tracing.Path.String(string(path)), tracing.Due.String(due), attribute.Int("delaybridge.shard", s.n))
	tracing.SpanOf(span).Write(headers)
	return span
}

func endPromoting(span trace.Span, err error) {
	if span != nil {
		tracing.End(span, err)
	}
}
