package main

import (
	"context"
	"encoding/hex"
	"errors"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/message/sampling"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// Of a foreign client, which takes part by sending a traceparent.
const (
	foreignTrace, foreignSpan = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	foreignParent             = "00-" + foreignTrace + "-" + foreignSpan + "-01"
	foreignUnsampled          = "00-" + foreignTrace + "-" + foreignSpan + "-00"
	foreignState              = "vendor=of-the-client"
)

// tracedWorld is a bridge and a consumer as processes, and a consumer in this one whose
// handler can fail, all of which send their spans to one collector.
type tracedWorld struct {
	t         *testing.T
	collector *otlpCollector
	program   string
	vars      map[string]string
	topology  *topology.Topology
	ch        *amqp.Channel
	got       chan message.Message // by the handler
	provider  trace.TracerProvider // of this process
	park      *redisbridge.Park
}

func startTracedWorld(t *testing.T) *tracedWorld {
	t.Helper()
	w := &tracedWorld{
		t: t, collector: startCollector(t), program: filepath.Join(program(t), "delaybridge"),
		vars: scriptEnv(t), got: make(chan message.Message, 100),
	}
	// The bridge sends at once, so that nobody waits for the end of an interval.
	w.vars["OTEL_BSP_SCHEDULE_DELAY"] = "50"
	var err error
	if w.topology, err = topology.New(topology.Config{
		Prefix: w.vars["DELAYBRIDGE_PREFIX"], Tiers: []time.Duration{time.Second, 30 * time.Second}, Lead: time.Second, Shards: 1,
	}); err != nil {
		t.Fatal(err)
	}
	conn, err := amqp.Dial(w.vars["DELAYBRIDGE_AMQP_URL"])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := w.topology.Apply(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	if w.ch, err = conn.Channel(); err != nil {
		t.Fatal(err)
	}
	if err := w.ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	w.consume()
	w.keep("bridge", map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_ENDPOINT": w.collector.grpcURL})
	w.keep("consume --queue printing --bind order.*", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": w.collector.httpURL})
	return w
}

func (w *tracedWorld) command(env []string, arguments ...string) *exec.Cmd {
	cmd := exec.Command(w.program, arguments...)
	cmd.Env = append(os.Environ(), env...)
	for name, value := range w.vars {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}

// keep runs a command until the end of the test, and returns once it is ready: what
// is published before a consumer has bound its queue is unrouted.
func (w *tracedWorld) keep(command string, env map[string]string) {
	w.t.Helper()
	vars := maps.Clone(w.vars)
	maps.Copy(vars, env)
	p := startServing(w.t, vars, nil, strings.Fields(command)...)
	w.t.Cleanup(func() { p.stop(w.t, servePatience) })
	p.awaitReady(w.t)
}

// publish runs `delaybridge publish`.
func (w *tracedWorld) publish(arguments string, env ...string) {
	w.t.Helper()
	w.does("publish "+arguments, env...)
}

// does runs a command to its end.
func (w *tracedWorld) does(command string, env ...string) {
	w.t.Helper()
	cmd := w.command(append(env, "OTEL_EXPORTER_OTLP_ENDPOINT="+w.collector.httpURL), strings.Fields(command)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// send publishes as a client in any language does.
func (w *tracedWorld) send(id, key string, headers amqp.Table) {
	w.t.Helper()
	confirm, err := w.ch.PublishWithDeferredConfirm(w.topology.EntryExchange(), key, true, false,
		amqp.Publishing{MessageId: id, DeliveryMode: amqp.Persistent, Headers: headers})
	if err != nil || !confirm.Wait() {
		w.t.Fatalf("publish %s: %v", id, err)
	}
}

// consume handles task.* in this process. What is to be retried fails once.
func (w *tracedWorld) consume() {
	t := w.t
	t.Helper()
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(w.collector.httpURL+"/v1/traces"))
	if err != nil {
		t.Fatal(err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter),
		sdktrace.WithResource(resource.NewSchemaless(semconv.ServiceName("a service"))),
		sdktrace.WithSampler(sampling.FollowLinks(sdktrace.ParentBased(sdktrace.NeverSample()))))
	client, err := redisbridge.NewClient(w.vars["DELAYBRIDGE_REDIS_URL"])
	if err != nil {
		t.Fatal(err)
	}
	park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: client, Topology: w.topology, TracerProvider: provider})
	if err != nil {
		t.Fatal(err)
	}
	w.provider, w.park = provider, park
	c, err := consumer.New(consumer.Config{
		AMQPURL: w.vars["DELAYBRIDGE_AMQP_URL"], Topology: w.topology, Queue: "working", Bind: []string{"task.*"},
		Delayer: park, Arrivals: park, TracerProvider: provider,
		Retry: consumer.Retry{Base: 100 * time.Millisecond},
		Handler: consumer.HandlerFunc(func(ctx context.Context, m message.Message) error {
			w.got <- m
			if m.RoutingKey == "task.retried" && m.Journey.Attempts == 0 {
				return errors.New("not yet")
			}
			if m.RoutingKey == "task.rejected" && m.Journey.Path != wire.ReplayPath {
				return consumer.Reject(errors.New("never"))
			}
			if m.RoutingKey == "task.unsampled" && trace.SpanContextFromContext(ctx).TraceID().String() != foreignTrace {
				t.Errorf("%s: the handler is not in its publisher's trace", m.ID)
			}
			return nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = client.Close()
	})
	<-c.Ready()
}

// next returns the next message that the handler gets.
func (w *tracedWorld) next() message.Message {
	w.t.Helper()
	select {
	case m := <-w.got:
		return m
	case <-time.After(time.Minute):
		w.t.Fatal("no message came")
		return message.Message{}
	}
}

// A backend shows the way of a message as one story, over processes, protocols and waits.
func TestTracesAreOneStory(t *testing.T) {
	t.Parallel()
	w := startTracedWorld(t)

	w.publish("--id parked --key order.unpaid --in 1500ms")
	w.publish("--id exact --key order.unpaid --in 1s --untracked")
	w.publish("--id direct --key order.unpaid")
	traced := func(parent string) amqp.Table {
		return amqp.Table{"x-delay": int32(1500), "traceparent": parent, "tracestate": foreignState, "shop": "berlin"}
	}
	w.send("inbox", "order.unpaid", traced(foreignParent))
	w.send("retried", "task.retried", traced(foreignParent))
	w.send("unsampled", "task.unsampled", traced(foreignUnsampled))
	w.send("untraced", "task.untraced", amqp.Table{"x-delay": int32(1500)})

	t.Run("parked", func(t *testing.T) {
		spans := w.collector.await(t, "parked", map[string]int{"publish": 1, "park": 1, "promote": 1, "deliver": 1, "handle": 1})
		publish, promote := spans["publish"][0], spans["promote"][0]
		isChild(t, spans["park"][0], publish)
		isLinked(t, promote, publish)
		isDelivered(t, spans, promote, publish)
		for step, service := range map[string]string{"publish": "delaybridge-publish", "promote": "delaybridge-bridge", "handle": "delaybridge-consume"} {
			if got := spans[step][0].service; got != service {
				t.Errorf("%s is of service %q, want %q", step, got, service)
			}
		}
		if name, want := promote.Name, "promote "+w.topology.LaneOf("", time.Second, 0); name != want {
			t.Errorf("got span %q, want %q", name, want)
		}
	})
	t.Run("exact tier", func(t *testing.T) {
		spans := w.collector.await(t, "exact", map[string]int{"publish": 1, "deliver": 1, "handle": 1})
		isLinked(t, spans["deliver"][0], spans["publish"][0])
		isChild(t, spans["handle"][0], spans["deliver"][0])
	})
	t.Run("at once", func(t *testing.T) {
		spans := w.collector.await(t, "direct", map[string]int{"publish": 1, "deliver": 1, "handle": 1})
		isChild(t, spans["deliver"][0], spans["publish"][0])
	})
	client := tracedSpan{Span: &tracepb.Span{TraceId: bytesOf(t, foreignTrace), SpanId: bytesOf(t, foreignSpan)}}
	t.Run("foreign client", func(t *testing.T) {
		spans := w.collector.await(t, "inbox", map[string]int{"park": 1, "promote": 1, "deliver": 1, "handle": 1})
		isChild(t, spans["park"][0], client)
		isLinked(t, spans["promote"][0], client)
		isDelivered(t, spans, spans["promote"][0], client)
		if got, want := spans["park"][0].Name, "park "+w.topology.Inbox(); got != want {
			t.Errorf("got span %q, want %q", got, want)
		}
	})
	t.Run("retried", func(t *testing.T) {
		spans := w.collector.await(t, "retried", map[string]int{"park": 2, "promote": 2, "deliver": 2, "handle": 2})
		first, second := spans["deliver"][0], spans["deliver"][1]
		isChild(t, spans["park"][0], client)
		isChild(t, first, spans["promote"][0])
		isChild(t, spans["handle"][0], first)
		isChild(t, spans["park"][1], first)
		isLinked(t, spans["promote"][1], first)
		isLinked(t, spans["promote"][1], client)
		isChild(t, second, spans["promote"][1])
		isChild(t, spans["handle"][1], second)
		if code := spans["handle"][0].Status.GetCode(); code != tracepb.Status_STATUS_CODE_ERROR {
			t.Errorf("the attempt that failed has status %v", code)
		}
		if got := first.attribute("delaybridge.outcome"); got != "delayed" {
			t.Errorf("the first delivery ended %q, want delayed", got)
		}
	})
	t.Run("what the publisher sent", func(t *testing.T) {
		for range 4 {
			m := w.next()
			want := map[string]string{"retried": foreignParent, "unsampled": foreignUnsampled, "untraced": ""}[m.ID]
			if got, _ := m.Headers["traceparent"].(string); got != want {
				t.Errorf("%s, attempt %d: traceparent %q, want %q", m.ID, m.Journey.Attempts+1, got, want)
			}
			if got := m.Headers["tracestate"]; want != "" && got != foreignState {
				t.Errorf("%s: tracestate %v", m.ID, got)
			}
		}
	})
	t.Run("not sampled", func(t *testing.T) {
		for _, id := range []string{"unsampled", "untraced"} {
			if spans := w.collector.of(id); len(spans) > 0 {
				t.Errorf("%s has spans: %v", id, spans)
			}
		}
	})
	t.Run("no secret", func(t *testing.T) {
		u, err := url.Parse(w.vars["DELAYBRIDGE_AMQP_URL"])
		if err != nil {
			t.Fatal(err)
		}
		w.collector.mu.Lock()
		defer w.collector.mu.Unlock()
		said := w.collector.said.String()
		if password, _ := u.User.Password(); len(said) == 0 || containsAny(said, u.Scheme+"://", ":"+password+"@") {
			t.Error("a span has a URL in it")
		}
	})
}

// What is done to a message on its way links to its publisher's span, where Redis has it
// still, and is within the trace of who does it, where that is sampled.
func TestChangesAreInTheStory(t *testing.T) {
	t.Parallel()
	w := startTracedWorld(t)
	inAnHour := func(parent string) amqp.Table {
		return amqp.Table{"x-delay": int32(time.Hour.Milliseconds()), "traceparent": parent}
	}
	client := tracedSpan{Span: &tracepb.Span{TraceId: bytesOf(t, foreignTrace), SpanId: bytesOf(t, foreignSpan)}}

	w.send("changed", "order.unpaid", inAnHour(foreignParent))
	w.send("unsampled", "order.unpaid", inAnHour(foreignUnsampled))
	w.send("served", "order.unpaid", inAnHour(foreignParent))
	w.send("rejected", "task.rejected", amqp.Table{"traceparent": foreignParent})
	w.collector.await(t, "changed", map[string]int{"park": 1})
	w.collector.await(t, "served", map[string]int{"park": 1})
	w.await("unsampled")

	t.Run("by commands", func(t *testing.T) {
		w.does("reschedule --in 30m changed unsampled")
		w.does("cancel changed unsampled")
		spans := w.collector.await(t, "changed", map[string]int{"park": 1, "reschedule": 1, "cancel": 1})
		for _, step := range []string{"reschedule", "cancel"} {
			s := spans[step][0]
			isLinked(t, s, client)
			if want := step + " " + w.topology.Prefix(); s.Name != want || s.service != "delaybridge-"+step {
				t.Errorf("got span %q of %s, want %q", s.Name, s.service, want)
			}
			if got := s.attribute("delaybridge.outcome"); got != "done" {
				t.Errorf("%s: outcome %q", step, got)
			}
		}
		if spans := w.collector.of("unsampled"); len(spans) > 0 {
			t.Errorf("a message that is not traced has spans: %v", spans)
		}
	})
	t.Run("by a service", func(t *testing.T) {
		ctx, request := w.provider.Tracer("").Start(t.Context(), "POST /pay", trace.WithLinks(trace.Link{
			SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{7}, SpanID: trace.SpanID{7}, TraceFlags: trace.FlagsSampled}),
		}))
		for _, id := range []string{"served", "nobody knows it"} {
			if _, err := w.park.Cancel(ctx, id); err != nil {
				t.Fatal(err)
			}
			if _, err := w.park.Cancel(t.Context(), id); err != nil { // within no trace, and by now its envelope is gone
				t.Fatal(err)
			}
		}
		request.End()
		within := request.SpanContext()
		traceID, spanID := within.TraceID(), within.SpanID()
		for id, linked := range map[string]bool{"served": true, "nobody knows it": false} {
			s := w.collector.await(t, id, map[string]int{"park": len(w.collector.of(id)["park"]), "cancel": 1})["cancel"][0]
			isChild(t, s, tracedSpan{Span: &tracepb.Span{Name: "POST /pay", TraceId: traceID[:], SpanId: spanID[:]}})
			if got := s.linksTo(client.TraceId, client.SpanId); got != linked {
				t.Errorf("%s: it links to its publisher: %v, want %v", id, got, linked)
			}
		}
	})
	t.Run("out of quarantine", func(t *testing.T) {
		first := w.collector.await(t, "rejected", map[string]int{"deliver": 1, "handle": 1})["deliver"][0]
		w.does("quarantine replay rejected")
		spans := w.collector.await(t, "rejected", map[string]int{"replay": 1, "deliver": 2, "handle": 2})
		replay := spans["replay"][0]
		isLinked(t, replay, first)
		isLinked(t, replay, client)
		isLinked(t, spans["deliver"][1], replay)
	})
}

// await waits until Redis has a message.
func (w *tracedWorld) await(id string) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(50 * time.Millisecond) {
		_, known, err := lookUp(w.park.Get(w.t.Context(), id))
		if err != nil {
			w.t.Fatal(err)
		}
		if known {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%s is not parked", id)
		}
	}
}

// Half of the publisher's traces are dropped; what is kept, is kept to the end.
func TestOneSampleForAStory(t *testing.T) {
	t.Parallel()
	w := startTracedWorld(t)
	w.publish("--id kept --key order.unpaid --in 1500ms", "OTEL_TRACES_SAMPLER=always_on")
	w.publish("--id dropped --key order.unpaid --in 1500ms", "OTEL_TRACES_SAMPLER=always_off")
	w.publish("--id last --key order.unpaid --in 2s")
	w.collector.await(t, "kept", map[string]int{"publish": 1, "park": 1, "promote": 1, "deliver": 1, "handle": 1})
	w.collector.await(t, "last", map[string]int{"publish": 1, "park": 1, "promote": 1, "deliver": 1, "handle": 1})
	if spans := w.collector.of("dropped"); len(spans) > 0 {
		t.Errorf("spans of a message that is not traced: %v", spans)
	}
}

func bytesOf(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func isChild(t *testing.T, s, parent tracedSpan) {
	t.Helper()
	if !s.hasParent(parent) {
		t.Errorf("%q is no child of %q", s.Name, parent.Name)
	}
}

// isLinked checks that s begins a trace, with a link.
func isLinked(t *testing.T, s, other tracedSpan) {
	t.Helper()
	if len(s.ParentSpanId) > 0 || string(s.TraceId) == string(other.TraceId) {
		t.Errorf("%q begins no trace", s.Name)
	}
	if !s.linksTo(other.TraceId, other.SpanId) {
		t.Errorf("%q does not link to %q", s.Name, other.Name)
	}
}

// isDelivered checks the end of a story: it was promoted, delivered and handled.
func isDelivered(t *testing.T, spans map[string][]tracedSpan, promote, origin tracedSpan) {
	t.Helper()
	deliver := spans["deliver"][0]
	isChild(t, deliver, promote)
	if !deliver.linksTo(origin.TraceId, origin.SpanId) {
		t.Errorf("%q does not link to its publisher", deliver.Name)
	}
	isChild(t, spans["handle"][0], deliver)
}

func containsAny(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

// lookUp says whether a message is known.
func lookUp(m redisbridge.MessageState, err error) (redisbridge.MessageState, bool, error) {
	if errors.Is(err, redisbridge.ErrNotFound) {
		return m, false, nil
	}
	return m, err == nil, err
}
