// Package meters is what the metrics packages of producer, consumer and redisbridge
// share: collectors that several of them may have in one registry.
package meters

import (
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Namespace begins the name of each metric.
const Namespace = "delaybridge"

// CallSeconds are buckets for the answers of servers, and of handlers.
func CallSeconds() []float64 {
	return []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
}

// Set registers the metrics of one installation, which the label prefix tells from
// others. It gathers what goes wrong.
type Set struct {
	registerer prometheus.Registerer
	labels     prometheus.Labels
	faults     []error
}

// NewSet returns a set for the metrics of a prefix.
func NewSet(registerer prometheus.Registerer, prefix string) *Set {
	return &Set{registerer: registerer, labels: prometheus.Labels{"prefix": prefix}}
}

// Err joins what went wrong.
func (s *Set) Err() error { return errors.Join(s.faults...) }

// Counter registers a counter, or returns the one that is there.
func (s *Set) Counter(name, help string, labels ...string) *prometheus.CounterVec {
	return Add(s, prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: Namespace, Name: name, Help: help, ConstLabels: s.labels,
	}, labels))
}

// Histogram registers a histogram, or returns the one that is there.
func (s *Set) Histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return Add(s, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: Namespace, Name: name, Help: help, ConstLabels: s.labels, Buckets: buckets,
	}, labels))
}

// Desc describes a metric that is read when it is asked for.
func (s *Set) Desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(Namespace, "", name), help, labels, s.labels)
}

// Add registers c, or returns the collector of the same metrics that is there.
func Add[C prometheus.Collector](s *Set, c C) C {
	err := s.registerer.Register(c)
	there, again := errors.AsType[prometheus.AlreadyRegisteredError](err)
	switch existing, same := there.ExistingCollector.(C); {
	case again && same:
		return existing
	case err != nil:
		s.faults = append(s.faults, err)
	}
	return c
}

// Instances is a collector that reads several things of one kind, such as the consumers
// of a process, when it is asked.
type Instances[T any] struct {
	descs []*prometheus.Desc
	read  func([]T, chan<- prometheus.Metric)

	mu  sync.Mutex
	all []T
}

// NewInstances returns a collector without instances.
func NewInstances[T any](descs []*prometheus.Desc, read func([]T, chan<- prometheus.Metric)) *Instances[T] {
	return &Instances[T]{descs: descs, read: read}
}

// Add has one more instance read.
func (i *Instances[T]) Add(one T) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all = append(i.all, one)
}

// Describe implements [prometheus.Collector].
func (i *Instances[T]) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range i.descs {
		ch <- desc
	}
}

// Collect implements [prometheus.Collector].
func (i *Instances[T]) Collect(ch chan<- prometheus.Metric) {
	i.mu.Lock()
	all := append([]T(nil), i.all...)
	i.mu.Unlock()
	i.read(all, ch)
}

// Truth is 1 for true, 0 for false.
func Truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
