package main

import (
	"context"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// otlpCollector takes spans as a collector does, by gRPC and by HTTP, and keeps them.
type otlpCollector struct {
	collector.UnimplementedTraceServiceServer
	httpURL, grpcURL string

	mu      sync.Mutex
	spans   []tracedSpan
	said    strings.Builder // all that came, as text
	changed chan struct{}   // closed and replaced with each request
}

// tracedSpan is a span with what is known of who sent it.
type tracedSpan struct {
	*tracepb.Span
	service string
}

func (s tracedSpan) step() string { return strings.Fields(s.Name)[0] }

func (s tracedSpan) attribute(key string) string { return textOf(s.Attributes, key) }

func textOf(attributes []*commonpb.KeyValue, key string) string {
	for _, a := range attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// hasParent reports whether s is a child of other.
func (s tracedSpan) hasParent(other tracedSpan) bool {
	return string(s.ParentSpanId) == string(other.SpanId) && string(s.TraceId) == string(other.TraceId)
}

// linksTo reports whether s has a link to another span.
func (s tracedSpan) linksTo(traceID, spanID []byte) bool {
	return slices.ContainsFunc(s.Links, func(l *tracepb.Span_Link) bool {
		return string(l.TraceId) == string(traceID) && string(l.SpanId) == string(spanID)
	})
}

func startCollector(t *testing.T) *otlpCollector {
	t.Helper()
	c := &otlpCollector{changed: make(chan struct{})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	byGRPC := grpc.NewServer()
	collector.RegisterTraceServiceServer(byGRPC, c)
	go func() { _ = byGRPC.Serve(listener) }()
	t.Cleanup(byGRPC.Stop)
	byHTTP := httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(byHTTP.Close)
	c.httpURL, c.grpcURL = byHTTP.URL, "http://"+listener.Addr().String()
	return c
}

// Export takes spans by gRPC.
func (c *otlpCollector) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said.WriteString(r.String())
	for _, of := range r.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			for _, span := range scope.Spans {
				c.spans = append(c.spans, tracedSpan{span, textOf(of.Resource.Attributes, "service.name")})
			}
		}
	}
	close(c.changed)
	c.changed = make(chan struct{})
	return &collector.ExportTraceServiceResponse{}, nil
}

func (c *otlpCollector) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request collector.ExportTraceServiceRequest
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &request) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	_, _ = c.Export(r.Context(), &request)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// of returns the spans of a message, by step and in the order of their beginning.
func (c *otlpCollector) of(id string) map[string][]tracedSpan {
	c.mu.Lock()
	defer c.mu.Unlock()
	spans := map[string][]tracedSpan{}
	for _, s := range c.spans {
		if s.attribute("messaging.message.id") == id {
			spans[s.step()] = append(spans[s.step()], s)
		}
	}
	for _, those := range spans {
		slices.SortFunc(those, func(a, b tracedSpan) int { return int(a.StartTimeUnixNano) - int(b.StartTimeUnixNano) })
	}
	return spans
}

// await returns the spans of a message once there are so many of each step.
func (c *otlpCollector) await(t *testing.T, id string, want map[string]int) map[string][]tracedSpan {
	t.Helper()
	for deadline := time.After(time.Minute); ; {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		spans, complete := c.of(id), true
		for step, n := range want {
			complete = complete && len(spans[step]) >= n
		}
		if complete {
			for step, those := range spans {
				if len(those) != want[step] {
					t.Errorf("%s: %d spans %q, want %d", id, len(those), step, want[step])
				}
			}
			return spans
		}
		select {
		case <-changed:
		case <-deadline:
			for step, those := range spans {
				for _, s := range those {
					t.Logf("%s: %s of %s, trace %s", id, step, s.service, hex.EncodeToString(s.TraceId))
				}
			}
			t.Fatalf("%s: the spans are not complete, want %v", id, want)
		}
	}
}
