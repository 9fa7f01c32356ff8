package sampling_test

import (
	"context"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/message/sampling"
)

func TestFollowLinks(t *testing.T) {
	t.Parallel()
	span := func(flags trace.TraceFlags) trace.SpanContext {
		return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: flags, Remote: true})
	}
	sampled, dropped := span(trace.FlagsSampled), span(0)
	for name, test := range map[string]struct {
		parent trace.SpanContext
		links  []trace.SpanContext
		want   bool
	}{
		"no parent, no link":             {trace.SpanContext{}, nil, false},
		"a link to what is kept":         {trace.SpanContext{}, []trace.SpanContext{dropped, sampled}, true},
		"a link to what is dropped":      {trace.SpanContext{}, []trace.SpanContext{dropped}, false},
		"a parent that is kept":          {sampled, nil, true},
		"a parent that is dropped, link": {dropped, []trace.SpanContext{sampled}, false},
	} {
		provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampling.FollowLinks(sdktrace.ParentBased(sdktrace.NeverSample()))))
		var links []trace.Link
		for _, link := range test.links {
			links = append(links, trace.Link{SpanContext: link})
		}
		_, made := provider.Tracer("").Start(trace.ContextWithSpanContext(context.Background(), test.parent), "x", trace.WithLinks(links...))
		if got := made.SpanContext().IsSampled(); got != test.want {
			t.Errorf("%s: sampled %v, want %v", name, got, test.want)
		}
	}
}
