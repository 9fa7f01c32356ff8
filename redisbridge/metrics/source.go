package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// askFor bounds how long a scrape waits for a source: Prometheus gives up after ten
	// seconds by default.
	askFor = 3 * time.Second
	// answerFor bounds how long the source may gather what it has before that.
	answerFor = askFor - 500*time.Millisecond
	// fresh is for how long an answer serves other scrapes, too.
	fresh = 2 * time.Second
)

// source is a server that is asked when metrics are scraped, and at no other time. What it
// has answered serves all who scrape within a short while; one that does not answer is
// not asked again before it has.
type source struct {
	name     string
	ask      func(context.Context) ([]prometheus.Metric, error)
	failures prometheus.Counter

	mu     sync.Mutex
	asking *question // the last
}

// question is one call of a source.
type question struct {
	answered chan struct{}
	at       time.Time // when it was
	metrics  []prometheus.Metric
	err      error
}

// metrics returns what the source answers, which may be a part, or nothing.
func (s *source) metrics() []prometheus.Metric {
	q := s.question()
	timer := time.NewTimer(askFor)
	defer timer.Stop()
	select {
	case <-q.answered:
		if q.err != nil {
			s.failures.Inc()
		}
		return q.metrics // what there is of them
	case <-timer.C:
	}
	s.failures.Inc()
	return nil
}

// question returns the one that is under way, or fresh, or a new one.
func (s *source) question() *question {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.asking; q != nil {
		select {
		case <-q.answered:
			if time.Since(q.at) < fresh {
				return q
			}
		default:
			return q
		}
	}
	q := &question{answered: make(chan struct{})}
	s.asking = q
	go func() {
		defer close(q.answered)
		ctx, cancel := context.WithTimeout(context.Background(), answerFor)
		defer cancel()
		q.metrics, q.err = s.ask(ctx)
		q.at = time.Now()
	}()
	return q
}
