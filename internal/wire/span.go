package wire

import amqp "github.com/rabbitmq/amqp091-go"

// Span names a span of a trace as W3C Trace Context writes it. The zero value is none.
type Span struct {
	Traceparent string
	Tracestate  string // of the tracing systems, often empty
}

// maxTracestate is how much of it all have to carry; what is longer may be left out.
const maxTracestate = 512

// Write writes s into headers of the bridge's own, for the next step of the journey. The
// publisher's context, in HeaderTraceparent, stays as it is.
func (s Span) Write(headers amqp.Table) {
	if s.Traceparent == "" {
		return
	}
	headers[HeaderStepTraceparent] = s.Traceparent
	delete(headers, HeaderStepTracestate)
	if s.Tracestate != "" && len(s.Tracestate) <= maxTracestate {
		headers[HeaderStepTracestate] = s.Tracestate
	}
}

// SpanIn returns what Write wrote into headers.
func SpanIn(headers amqp.Table) (s Span) {
	for _, name := range [...]string{HeaderStepTraceparent, HeaderStepTracestate} {
		s.Restore(name, headers[name])
	}
	return s
}

// Restore is the opposite of Write, for one header.
func (s *Span) Restore(name string, value any) {
	text, ok := value.(string)
	switch {
	case !ok || len(text) > maxTracestate:
	case name == HeaderStepTraceparent:
		s.Traceparent = text
	case name == HeaderStepTracestate:
		s.Tracestate = text
	}
}
