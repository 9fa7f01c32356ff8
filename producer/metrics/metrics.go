// Package metrics has a producer counted in metrics for Prometheus:
//
//	p, err := metrics.NewProducer(prometheus.DefaultRegisterer, producer.Config{...})
//
// in place of producer.New. docs/metrics.md lists them.
package metrics

import (
	"errors"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/delaybridge/delaybridge/internal/meters"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer"
)

// NewProducer is [producer.New] for a producer whose metrics registerer has. Several
// producers may share a registerer. c.Observe is called, too.
func NewProducer(registerer prometheus.Registerer, c producer.Config) (*producer.Producer, error) {
	if c.Topology == nil {
		return producer.New(c)
	}
	set := meters.NewSet(registerer, c.Topology.Prefix())
	publishes := set.Counter("producer_publishes_total",
		"Calls of Publish, by the way that the message takes and by what came of it.", "path", "outcome")
	took := set.Histogram("producer_publish_duration_seconds",
		"How long Publish took: until the broker's confirm or Redis' answer, the wait for a connection included.",
		meters.CallSeconds(), "path")
	ready := set.Desc("producer_ready", "1 while the producer has a connection to RabbitMQ that can be published over.")
	reconnects := set.Desc("producer_reconnects_total", "Connections to RabbitMQ made again after one was lost.")
	instances := meters.Add(set, meters.NewInstances([]*prometheus.Desc{ready, reconnects},
		func(all []*producer.Producer, ch chan<- prometheus.Metric) {
			good, again := true, int64(0)
			for _, p := range all {
				good = good && p.Check() == nil
				again += p.Reconnects()
			}
			ch <- prometheus.MustNewConstMetric(ready, prometheus.GaugeValue, meters.Truth(good))
			ch <- prometheus.MustNewConstMetric(reconnects, prometheus.CounterValue, float64(again))
		}))
	if err := set.Err(); err != nil {
		return nil, err
	}
	then := c.Observe
	c.Observe = func(o producer.Observation) {
		path := pathOf(o.Receipt.Path)
		publishes.WithLabelValues(path, outcome(&o)).Inc()
		took.WithLabelValues(path).Observe(o.Took.Seconds())
		if then != nil {
			then(o)
		}
	}
	p, err := producer.New(c)
	if err == nil {
		instances.Add(p)
	}
	return p, err
}

// pathOf is a path without what is to come: inbox rather than "inbox, to be parked".
func pathOf(p message.Path) string {
	if p == "" {
		return "unknown" // it has failed
	}
	way, _, _ := strings.Cut(string(p), ",")
	return way
}

func outcome(o *producer.Observation) string {
	switch {
	case o.Err == nil && o.Receipt.Duplicate:
		return "duplicate"
	case o.Err == nil:
		return "published"
	}
	for _, kind := range []struct {
		err  error
		name string
	}{
		{producer.ErrCancelled, "cancelled"}, {producer.ErrInvalid, "invalid"}, {producer.ErrUnconfirmed, "unconfirmed"}, {producer.ErrRefused, "refused"},
		{producer.ErrUnroutable, "unroutable"}, {producer.ErrNotSent, "not_sent"},
	} {
		if errors.Is(o.Err, kind.err) {
			return kind.name
		}
	}
	return "failed"
}
