// Package sampling has a sampler by which the traces of one message are kept or dropped
// together.
//
// Where a message has waited a new trace begins, which links to the one before. Whether
// that is kept is a new decision, so that of a sampler that keeps one trace in ten would
// remain one message in a hundred with both. With [FollowLinks] the publisher decides for
// the whole way:
//
//	sdktrace.WithSampler(sampling.FollowLinks(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.1))))
package sampling

import (
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// FollowLinks returns a sampler that keeps a span which begins a trace where it links to
// a span that is kept. What has a parent, or no links, is up to otherwise.
func FollowLinks(otherwise sdktrace.Sampler) sdktrace.Sampler { return followLinks{otherwise} }

type followLinks struct{ otherwise sdktrace.Sampler }

// ShouldSample decides on one span.
func (f followLinks) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if !trace.SpanContextFromContext(p.ParentContext).IsValid() {
		for _, link := range p.Links {
			if link.SpanContext.IsSampled() {
				return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample}
			}
		}
	}
	return f.otherwise.ShouldSample(p)
}

// Description is shown in the SDK's own logs.
func (f followLinks) Description() string { return "FollowLinks{" + f.otherwise.Description() + "}" }
