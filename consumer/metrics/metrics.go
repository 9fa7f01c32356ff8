// Package metrics has a consumer counted in metrics for Prometheus:
//
//	c, err := metrics.NewConsumer(prometheus.DefaultRegisterer, consumer.Config{...})
//
// in place of consumer.New. docs/metrics.md lists them.
package metrics

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/internal/meters"
	"github.com/delaybridge/delaybridge/message"
)

// LatenessSeconds are the buckets of the histogram of lateness. What is early is in the
// first.
func LatenessSeconds() []float64 {
	return []float64{0, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600}
}

// NewConsumer is [consumer.New] for a consumer whose metrics registerer has. Several
// consumers may share a registerer. c.Observe and c.Middleware are called, too.
func NewConsumer(registerer prometheus.Registerer, c consumer.Config) (*consumer.Consumer, error) {
	if c.Topology == nil {
		return consumer.New(c)
	}
	m, err := newMeters(registerer, c.Topology.Prefix(), c.Queue)
	if err != nil {
		return nil, err
	}
	then := c.Observe
	c.Observe = func(o consumer.Observation) {
		m.observe(&o)
		if then != nil {
			then(o)
		}
	}
	c.Middleware = append(slices.Clone(c.Middleware), m.around)
	instance, err := consumer.New(c)
	if err == nil {
		m.instances.Add(watched{c.Queue, instance})
	}
	return instance, err
}

// consumerMeters count what one consumer does.
type consumerMeters struct {
	queue     string
	messages  map[consumer.Outcome]prometheus.Counter
	lateness  map[string]prometheus.Observer // by kind of path
	early     prometheus.Counter
	retries   prometheus.Counter
	handling  prometheus.Observer
	instances *meters.Instances[watched]
}

// watched is a consumer with its queue.
type watched struct {
	queue string
	*consumer.Consumer
}

func newMeters(registerer prometheus.Registerer, prefix, queue string) (*consumerMeters, error) {
	set := meters.NewSet(registerer, prefix)
	messages := set.Counter("consumer_messages_total", "Messages that the consumer is done with, by outcome.", "queue", "outcome")
	lateness := set.Histogram("consumer_lateness_seconds",
		"How long after they were due messages met their handler, by the consumer's clock; what is early is in the first bucket. Without those whose due time is not known.",
		LatenessSeconds(), "queue", "path")
	early := set.Counter("consumer_early_total", "Messages that met their handler before they were due, by the consumer's clock.", "queue")
	retries := set.Counter("consumer_retries_total", "Calls of the handler for a message that it has failed at before.", "queue")
	handling := set.Histogram("consumer_handler_duration_seconds", "How long calls of the handler took, failed ones too.", meters.CallSeconds(), "queue")
	m := &consumerMeters{
		queue: queue, messages: map[consumer.Outcome]prometheus.Counter{}, lateness: map[string]prometheus.Observer{},
		instances: meters.Add(set, newInstances(set)),
	}
	if err := set.Err(); err != nil {
		return nil, err
	}
	m.early, m.retries, m.handling = early.WithLabelValues(queue), retries.WithLabelValues(queue), handling.WithLabelValues(queue)
	for _, outcome := range []consumer.Outcome{
		consumer.Acknowledged, consumer.Duplicate, consumer.Delayed, consumer.Quarantined, consumer.Dropped, consumer.Returned,
	} {
		m.messages[outcome] = messages.WithLabelValues(queue, string(outcome))
	}
	for _, kind := range kinds() {
		m.lateness[kind] = lateness.WithLabelValues(queue, kind)
	}
	return m, nil
}

func newInstances(set *meters.Set) *meters.Instances[watched] {
	ready := set.Desc("consumer_ready", "1 while the consumer is connected and its queue knows it.", "queue")
	reconnects := set.Desc("consumer_reconnects_total", "Connections to RabbitMQ made again after one was lost.", "queue")
	return meters.NewInstances([]*prometheus.Desc{ready, reconnects}, func(all []watched, ch chan<- prometheus.Metric) {
		good, again := map[string]bool{}, map[string]int64{}
		for _, c := range all {
			before, another := good[c.queue]
			good[c.queue] = c.Check() == nil && (before || !another)
			again[c.queue] += c.Reconnects()
		}
		for queue, ok := range good {
			ch <- prometheus.MustNewConstMetric(ready, prometheus.GaugeValue, meters.Truth(ok), queue)
			ch <- prometheus.MustNewConstMetric(reconnects, prometheus.CounterValue, float64(again[queue]), queue)
		}
	})
}

func (m *consumerMeters) observe(o *consumer.Observation) {
	if counter, known := m.messages[o.Outcome]; known {
		counter.Inc()
	}
	if o.Outcome == consumer.Returned || o.Outcome == consumer.Dropped || o.Message.Journey.Due.IsZero() {
		return
	}
	m.lateness[kindOf(o.Message.Journey.Path)].Observe(o.Lateness.Seconds())
	if o.Lateness < 0 {
		m.early.Inc()
	}
}

// around sees each call of the handler.
func (m *consumerMeters) around(next consumer.Handler) consumer.Handler {
	return consumer.HandlerFunc(func(ctx context.Context, received message.Message) error {
		if j := &received.Journey; j.Queue == m.queue && j.Attempts > 0 {
			m.retries.Inc()
		}
		began := time.Now()
		defer func() { m.handling.Observe(time.Since(began).Seconds()) }() // after a panic, too
		return next.Handle(ctx, received)
	})
}

// other is the kind of a path that a client has made up, and of one that says nothing.
const other = "other"

// kinds are the values of the label path: the last stretch of the way, whichever tier or
// lane that was. The header that says it is anybody's to set.
func kinds() []string {
	return []string{"tier", "lane", "ready", "retry", "direct", "replayed", other}
}

func kindOf(p message.Path) string {
	_, last, parked := strings.Cut(string(p), ", then ")
	if !parked {
		last = string(p)
	}
	kind, _, _ := strings.Cut(last, " ")
	for _, known := range kinds() {
		if kind == known {
			return known
		}
	}
	return other
}
