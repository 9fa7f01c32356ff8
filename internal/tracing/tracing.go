// Package tracing is what producer, redisbridge and consumer share of traces: how W3C
// trace context travels in headers, and what the spans of a message's way are called.
//
// A message is told of in more than one trace, since it may wait for days and no backend
// takes a trace that is open for so long. Where it has waited a new trace begins, with a
// link to the span before. docs/traces.md shows the whole.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
)

// The steps of a message's way, which begin the names of their spans.
const (
	Publish = "publish" // by the Go producer
	Park    = "park"    // into Redis
	Promote = "promote" // out of Redis, to the broker
	Deliver = "deliver" // from the broker to a consumer, until that is done with it
	Handle  = "handle"  // one call of the handler
	Replay  = "replay"  // out of quarantine, to the broker
)

// What is done to a message on its way, which begins the names of spans, too.
const (
	Cancel     = "cancel"
	Reschedule = "reschedule"
)

// Attributes of our own.
const (
	Path       = attribute.Key("delaybridge.path")
	Due        = attribute.Key("delaybridge.due") // RFC 3339
	Outcome    = attribute.Key("delaybridge.outcome")
	LatenessMS = attribute.Key("delaybridge.lateness_ms")
	Attempt    = attribute.Key("delaybridge.attempt")
)

// Tracer starts the spans of one package. A nil one is off: its user must not call it.
type Tracer struct {
	tracer trace.Tracer
}

// New returns the tracer of a package of ours, or nil where there is no provider.
func New(provider trace.TracerProvider, room string) *Tracer {
	if provider == nil {
		return nil
	}
	return &Tracer{provider.Tracer("github.com/delaybridge/delaybridge/"+room, trace.WithSchemaURL(semconv.SchemaURL))}
}

// A Step is what a span is started with.
type Step struct {
	Name        string // one of the steps above
	Kind        trace.SpanKind
	Type        attribute.KeyValue // of the operation, by the conventions for messaging; they have none for cancelling
	Destination string             // exchange or queue
	Parent      trace.SpanContext  // beyond this process; without one that of ctx counts
	Alone       bool               // begin a new trace
	Links       []trace.SpanContext
	Began       time.Time // zero: now
}

// Start starts the span of a step that m takes.
func (t *Tracer) Start(ctx context.Context, s Step, m *message.Message) (context.Context, trace.Span) {
	options := make([]trace.SpanStartOption, 0, 5)
	options = append(options, trace.WithSpanKind(s.Kind), trace.WithAttributes(
		semconv.MessagingSystemRabbitMQ, semconv.MessagingOperationName(s.Name),
		semconv.MessagingDestinationName(s.Destination),
		semconv.MessagingMessageID(m.ID),
	))
	if s.Type.Valid() { // so the message is at hand
		options = append(options, trace.WithAttributes(s.Type,
			semconv.MessagingRabbitMQDestinationRoutingKey(m.RoutingKey),
			semconv.MessagingMessageBodySize(len(m.Body)),
		))
	}
	if !s.Began.IsZero() {
		options = append(options, trace.WithTimestamp(s.Began))
	}
	switch {
	case s.Parent.IsValid():
		ctx = trace.ContextWithRemoteSpanContext(ctx, s.Parent)
	case s.Alone:
		options = append(options, trace.WithNewRoot())
	}
	links := make([]trace.Link, 0, len(s.Links))
	for _, other := range s.Links {
		if other.IsValid() {
			links = append(links, trace.Link{SpanContext: other})
		}
	}
	if len(links) > 0 {
		options = append(options, trace.WithLinks(links...))
	}
	return t.tracer.Start(ctx, s.Name+" "+s.Destination, options...)
}

// End ends a span, which has failed where err is not nil.
func End(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
		span.SetAttributes(semconv.ErrorTypeKey.String(kindOf(err)))
	}
	span.End()
}

// kindOf is the innermost type of an error: of the others, errors.Join and fmt.Errorf
// make most.
func kindOf(err error) string {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", err), "*")
}

// Origin returns the publisher's span by a message's headers, or an invalid one.
func Origin(headers amqp.Table) trace.SpanContext {
	if headers[wire.HeaderTraceparent] == nil {
		return trace.SpanContext{}
	}
	return parse(text(headers[wire.HeaderTraceparent]), text(headers[wire.HeaderTracestate]))
}

// Last returns the span of the step before, or an invalid one.
func Last(s wire.Span) trace.SpanContext {
	if s.Traceparent == "" {
		return trace.SpanContext{}
	}
	return parse(s.Traceparent, s.Tracestate)
}

func parse(parent, state string) trace.SpanContext {
	carrier := propagation.MapCarrier{wire.HeaderTraceparent: parent, wire.HeaderTracestate: state}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

// text is a header's value; some clients send text as bytes.
func text(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}

// SpanOf writes a span down for the next step.
func SpanOf(span trace.Span) wire.Span {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), span), carrier)
	return wire.Span{Traceparent: carrier[wire.HeaderTraceparent], Tracestate: carrier[wire.HeaderTracestate]}
}

// Carry returns headers with the context of a span, for everybody who meets the message
// from here on. Headers that have a context already, or that have no room for one, are
// returned as they are.
func Carry(span trace.Span, headers amqp.Table) amqp.Table {
	if _, has := headers[wire.HeaderTraceparent]; has || !span.SpanContext().IsValid() {
		return headers
	}
	mine := SpanOf(span)
	carried := make(amqp.Table, len(headers)+2)
	maps.Copy(carried, headers)
	carried[wire.HeaderTraceparent] = mine.Traceparent
	delete(carried, wire.HeaderTracestate) // of no use without the other
	if mine.Tracestate != "" {
		carried[wire.HeaderTracestate] = mine.Tracestate
	}
	if len(carried) > wire.MaxHeaderElements || wire.TableBytes(carried) > wire.MaxHeaderBytes {
		return headers
	}
	return carried
}
