package metrics

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
)

// What comes early is in the bucket 0, and counted; what nobody knows the due time of, and
// what is delivered again, has no lateness.
func TestLateness(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m, err := newMeters(registry, "shop", "closing")
	if err != nil {
		t.Fatal(err)
	}
	due := message.Journey{Due: time.Now(), Path: message.Path("parked, then lane 1m")}
	for _, o := range []consumer.Observation{
		{Outcome: consumer.Acknowledged, Lateness: -time.Millisecond, Message: message.Message{Journey: due}},
		{Outcome: consumer.Quarantined, Lateness: 3 * time.Millisecond, Message: message.Message{Journey: due}},
		{Outcome: consumer.Returned, Lateness: time.Hour, Message: message.Message{Journey: due}},
		{Outcome: consumer.Acknowledged},
	} {
		m.observe(&o)
	}
	if n := testutil.ToFloat64(m.early); n != 1 {
		t.Errorf("%v early, want 1", n)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "delaybridge_consumer_lateness_seconds" {
			continue
		}
		for _, metric := range family.GetMetric() {
			h, path := metric.GetHistogram(), metric.GetLabel()[0].GetValue()
			want := map[bool]uint64{true: 2}[path == "lane"]
			if h.GetSampleCount() != want || want > 0 && h.GetBucket()[0].GetCumulativeCount() != 1 {
				t.Errorf("path %s: %v", path, h)
			}
		}
	}
}

func TestKindOfPath(t *testing.T) {
	t.Parallel()
	for path, want := range map[message.Path]string{
		message.Path("tier 30m"): "tier", message.Path("parked, then lane 1m"): "lane", wire.ReadyPath: "ready",
		wire.RetryPath: "retry", message.PathDirect: "direct", wire.ReplayPath: "replayed",
		"": other, "tier": "tier", "whatever a client says": other, "parked, then lunch": other,
	} {
		if got := kindOf(path); got != want {
			t.Errorf("%q is %s, want %s", path, got, want)
		}
	}
}

// A call is a retry where this queue's consumer has failed before.
func TestRetries(t *testing.T) {
	t.Parallel()
	m, err := newMeters(prometheus.NewRegistry(), "shop", "closing")
	if err != nil {
		t.Fatal(err)
	}
	handler := m.around(consumer.HandlerFunc(func(context.Context, message.Message) error { return errors.New("no") }))
	for _, j := range []message.Journey{
		{}, {Queue: "closing", Attempts: 1}, {Queue: "closing", Attempts: 2}, {Queue: "another", Attempts: 3},
	} {
		if err := handler.Handle(t.Context(), message.Message{Journey: j}); err == nil {
			t.Error("the handler's error is lost")
		}
	}
	if n := testutil.ToFloat64(m.retries); n != 2 {
		t.Errorf("%v retries, want 2", n)
	}
}

// A message that is handled costs the counting no allocation.
func TestCountingAllocatesNothing(t *testing.T) {
	m, err := newMeters(prometheus.NewRegistry(), "shop", "closing")
	if err != nil {
		t.Fatal(err)
	}
	o := consumer.Observation{Outcome: consumer.Acknowledged, Message: message.Message{Journey: message.Journey{Due: time.Now(), Path: message.Path("parked, then lane 1m")}}}
	if n := testing.AllocsPerRun(100, func() { m.observe(&o) }); n > 1 { // kinds
		t.Errorf("%v allocations", n)
	}
}
