// Package metrics has a bridge, and what waits in Redis and on the broker, in metrics for
// Prometheus:
//
//	b, err := metrics.NewBridge(prometheus.DefaultRegisterer, redisbridge.Config{...}, nil)
//
// in place of redisbridge.New. docs/metrics.md lists them.
package metrics

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/delaybridge/delaybridge/internal/health"
	"github.com/delaybridge/delaybridge/internal/meters"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// NewBridge is [redisbridge.New] for a bridge whose metrics registerer has: what it does,
// and, asked for at each scrape, what Redis and the broker have. The hooks of c are
// called, too, and c.Client gets one ([CountCalls]).
//
// With m, which may be nil, the management API is asked as well, for what AMQP does not
// tell: how many messages are due, and not taken by the queue they lead to. It is
// c.Management, too, unless there is one.
func NewBridge(registerer prometheus.Registerer, c redisbridge.Config, m *topology.Management) (*redisbridge.Bridge, error) {
	if c.Topology == nil || c.Client == nil {
		return redisbridge.New(c)
	}
	set := meters.NewSet(registerer, c.Topology.Prefix())
	if c.Management == nil {
		c.Management = m
	}
	c.Observe = countSteps(set, c.Observe)
	c.ObserveConfirm = countConfirms(set, c.ObserveConfirm)
	bridges := meters.Add(set, newBridges(set, c.Topology))
	waiting := meters.Add(set, newWaiting(set))
	err := set.Err()
	if err == nil {
		err = CountCalls(registerer, c.Topology.Prefix(), c.Client)
	}
	if err != nil {
		return nil, err
	}
	bridge, err := redisbridge.New(c)
	if err != nil {
		return nil, err
	}
	park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: c.Client, Topology: c.Topology})
	if err != nil {
		return nil, err
	}
	bridges.Add(bridge)
	waiting.watch(installation{bridge: bridge, park: park, client: c.Client, topology: c.Topology, quotas: c.Quotas, management: m})
	return bridge, nil
}

// countSteps counts what happens to each message.
func countSteps(set *meters.Set, then func(redisbridge.Step, string, message.Path)) func(redisbridge.Step, string, message.Path) {
	claims := set.Counter("bridge_claims_total", "Parked messages that this bridge has claimed.").WithLabelValues()
	promotions := set.Counter("bridge_promotions_total", "Messages published into a lane, or to where they are due.", "path")
	settles := set.Counter("bridge_settles_total", "Promoted messages of which Redis knows that the broker has them.").WithLabelValues()
	returns := set.Counter("bridge_returns_total",
		"Claimed messages that went back into the schedule, because the broker had not taken them, or they could not be published then.").WithLabelValues()
	return func(step redisbridge.Step, id string, path message.Path) {
		switch step {
		case redisbridge.StepClaimed:
			claims.Inc()
		case redisbridge.StepPublished:
			promotions.WithLabelValues(destination(path)).Inc()
		case redisbridge.StepSettled:
			settles.Inc()
		case redisbridge.StepReturned:
			returns.Inc()
		case redisbridge.StepConfirmed: // the histogram of confirms counts them
		}
		if then != nil {
			then(step, id, path)
		}
	}
}

// destination is the last stretch of a path: lane 1m, ready, retry.
func destination(p message.Path) string {
	if _, last, parked := strings.Cut(string(p), ", then "); parked {
		return last
	}
	return string(p)
}

func countConfirms(set *meters.Set, then func(time.Duration, error)) func(time.Duration, error) {
	took := set.Histogram("bridge_confirm_duration_seconds",
		"How long the broker took to answer for a promoted message, by the answer.", meters.CallSeconds(), "answer")
	confirmed, failed := took.WithLabelValues("confirmed"), took.WithLabelValues("failed")
	return func(d time.Duration, answer error) {
		if answer == nil {
			confirmed.Observe(d.Seconds())
		} else {
			failed.Observe(d.Seconds())
		}
		if then != nil {
			then(d, answer)
		}
	}
}

// newBridges reads what bridges count themselves.
func newBridges(set *meters.Set, t *topology.Topology) *meters.Instances[*redisbridge.Bridge] {
	ready := set.Desc("bridge_ready", "1 while the bridge is connected, has found the topology complete, and promotes its shards: what /readyz says.")
	shards := set.Desc("bridge_shards", "Shards that this bridge promotes.")
	leases := set.Desc("bridge_lease_expiries_total",
		"Leases of shards that ran out while there was work: of other bridges, whose shards this one took over, and its own.")
	reconnects := set.Desc("bridge_reconnects_total", "Connections to RabbitMQ made again after one was lost.")
	conditions := set.Desc("bridge_condition", "1 while this bridge sees that this is wrong with the installation, 0 while it does not.", "condition")
	intake := set.Desc("bridge_intake_total", "Messages that this bridge has taken from the inbox, by what became of them.", "outcome")
	refused := set.Desc("bridge_refused_total", "Messages that this bridge has sent to quarantine since they were over their entry's quota.", "exchange")
	removed := set.Desc("bridge_removed_total", "Messages that this bridge has removed from the unrouted and the quarantine queue, by why: over their limit, or old.", "queue", "reason")
	info := set.Desc("bridge_info", "1; the release of this bridge, and the version of what that keeps in Redis.", "version", "layout")
	withoutID := set.Desc("bridge_intake_without_id_total", "Messages that this bridge has taken from the inbox and that came without a message-id.")
	carriedOut := set.Desc("bridge_commands_total", "Commands to cancel, reschedule or look up messages that this bridge has carried out, or answered with an error.")
	return meters.NewInstances([]*prometheus.Desc{ready, shards, leases, reconnects, intake, refused, removed, withoutID, carriedOut, conditions, info},
		func(all []*redisbridge.Bridge, ch chan<- prometheus.Metric) {
			good := true
			var sum redisbridge.BridgeStats
			shardsOf, refusals := 0, map[string]int64{}
			wrong := map[health.Condition]bool{}
			removals := map[string]redisbridge.Removed{}
			for _, b := range all {
				good = b.Check(context.Background()) == nil && good
				s := b.Stats()
				for _, c := range s.Conditions {
					wrong[health.Condition(c.Condition)] = true
				}
				shardsOf += len(s.Shards)
				sum.LeaseExpiries += s.LeaseExpiries
				sum.Reconnects += s.Reconnects
				sum.Version, sum.Layout = s.Version, s.Layout // the same, as they are in one process
				for queue, n := range s.Removed {
					removals[queue] = redisbridge.Removed{Over: removals[queue].Over + n.Over, Old: removals[queue].Old + n.Old}
				}
				sum.WithoutID += s.WithoutID
				sum.Commands += s.Commands
				for entry, n := range s.Refused {
					refusals[t.EntryExchangeOf(entry)] += n
				}
				sum.TakenIn = added(sum.TakenIn, s.TakenIn)
			}
			ch <- prometheus.MustNewConstMetric(ready, prometheus.GaugeValue, meters.Truth(good))
			ch <- prometheus.MustNewConstMetric(shards, prometheus.GaugeValue, float64(shardsOf))
			ch <- prometheus.MustNewConstMetric(leases, prometheus.CounterValue, float64(sum.LeaseExpiries))
			ch <- prometheus.MustNewConstMetric(reconnects, prometheus.CounterValue, float64(sum.Reconnects))
			for _, c := range health.All() {
				ch <- prometheus.MustNewConstMetric(conditions, prometheus.GaugeValue, meters.Truth(wrong[c]), string(c))
			}
			for outcome, n := range map[string]int64{
				"parked": sum.TakenIn.Parked, "duplicate": sum.TakenIn.Duplicates, "published": sum.TakenIn.Published,
				"dropped": sum.TakenIn.Dropped, "quarantined": sum.TakenIn.Quarantined,
			} {
				ch <- prometheus.MustNewConstMetric(intake, prometheus.CounterValue, float64(n), outcome)
			}
			for exchange, n := range refusals {
				ch <- prometheus.MustNewConstMetric(refused, prometheus.CounterValue, float64(n), exchange)
			}
			for _, queue := range []string{t.Unrouted(), t.Quarantine()} {
				ch <- prometheus.MustNewConstMetric(removed, prometheus.CounterValue, float64(removals[queue].Over), queue, "over")
				ch <- prometheus.MustNewConstMetric(removed, prometheus.CounterValue, float64(removals[queue].Old), queue, "old")
			}
			ch <- prometheus.MustNewConstMetric(info, prometheus.GaugeValue, 1, sum.Version, sum.Layout)
			ch <- prometheus.MustNewConstMetric(withoutID, prometheus.CounterValue, float64(sum.WithoutID))
			ch <- prometheus.MustNewConstMetric(carriedOut, prometheus.CounterValue, float64(sum.Commands))
		})
}

func added(a, b redisbridge.TakenIn) redisbridge.TakenIn {
	return redisbridge.TakenIn{
		Parked: a.Parked + b.Parked, Duplicates: a.Duplicates + b.Duplicates, Published: a.Published + b.Published,
		Dropped: a.Dropped + b.Dropped, Quarantined: a.Quarantined + b.Quarantined,
	}
}
