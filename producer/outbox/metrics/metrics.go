// Package metrics has a relay counted in metrics for Prometheus:
//
//	r, err := metrics.NewRelay(prometheus.DefaultRegisterer, prefix, outbox.RelayConfig{...})
//
// in place of outbox.NewRelay. docs/metrics.md lists them.
package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/delaybridge/delaybridge/internal/meters"
	"github.com/delaybridge/delaybridge/producer/outbox"
)

// askTimeout bounds how long a scrape waits for the database.
const askTimeout = 3 * time.Second

// NewRelay is [outbox.NewRelay] for a relay whose metrics registerer has, with the label
// prefix. What waits is asked of the database at each scrape, and absent where it does not
// answer in three seconds.
func NewRelay(registerer prometheus.Registerer, prefix string, c outbox.RelayConfig) (*outbox.Relay, error) {
	set := meters.NewSet(registerer, prefix)
	sent := set.Desc("outbox_rows_total", "Rows of the outbox, by what became of them.", "outcome")
	waiting := set.Desc("outbox_waiting_rows", "Rows that are to be sent.")
	failed := set.Desc("outbox_failed_rows", "Rows that were set aside, since they can never be sent.")
	oldest := set.Desc("outbox_oldest_seconds", "For how long the oldest row has waited that is to be sent; 0 where none is.")
	relays := meters.Add(set, meters.NewInstances([]*prometheus.Desc{sent, waiting, failed, oldest},
		func(all []*outbox.Relay, ch chan<- prometheus.Metric) {
			var sum outbox.Stats
			for _, r := range all {
				s := r.Stats()
				sum.Published += s.Published
				sum.Cancelled += s.Cancelled
				sum.Rescheduled += s.Rescheduled
				sum.Dropped += s.Dropped
				sum.SetAside += s.SetAside
				sum.Retried += s.Retried
			}
			for outcome, n := range map[string]int64{
				"published": sum.Published, "cancelled": sum.Cancelled, "rescheduled": sum.Rescheduled,
				"dropped": sum.Dropped, "set_aside": sum.SetAside, "retried": sum.Retried,
			} {
				ch <- prometheus.MustNewConstMetric(sent, prometheus.CounterValue, float64(n), outcome)
			}
			ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
			defer cancel()
			b, err := c.Store.Backlog(ctx)
			if err != nil {
				return
			}
			ch <- prometheus.MustNewConstMetric(waiting, prometheus.GaugeValue, float64(b.Waiting))
			ch <- prometheus.MustNewConstMetric(failed, prometheus.GaugeValue, float64(b.Failed))
			ch <- prometheus.MustNewConstMetric(oldest, prometheus.GaugeValue, b.Oldest.Seconds())
		}))
	if err := set.Err(); err != nil {
		return nil, err
	}
	r, err := outbox.NewRelay(c)
	if err == nil {
		relays.Add(r)
	}
	return r, err
}
