package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/delaybridge/delaybridge/bench/internal/figures"
	"github.com/delaybridge/delaybridge/bench/internal/lab"
	"github.com/delaybridge/delaybridge/internal/capacity"
	"github.com/delaybridge/delaybridge/internal/defaults"
	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/usage"
	"github.com/delaybridge/delaybridge/topology"
)

// costs are the keys, among the figures, of the costs that are measured here.
func costs(c *capacity.Costs) map[string]*float64 {
	return map[string]*float64{
		"cost_redis_us": &c.Redis, "cost_bridge_us": &c.Bridge, "cost_broker_us": &c.Broker,
		"cost_redis_idle": &c.RedisIdle, "cost_bridge_idle": &c.BridgeIdle, "cost_broker_idle": &c.BrokerIdle,
		"cost_bytes_message": &c.Message, "cost_bytes_slot": &c.Slot, "cost_bytes_bucket": &c.Bucket,
		"cost_queue_per_s": &c.Queue,
	}
}

// note puts costs that were measured among the figures: those of bytes, or the
// others.
func (s *suite) note(c *capacity.Costs, bytes bool) {
	for key, value := range costs(c) {
		if strings.HasPrefix(key, "cost_bytes_") == bytes {
			s.figures[key] = figures.Round(*value)
		}
	}
}

const capacityFor = 15 * time.Second

// rates are those that the costs are taken from, and those to predict.
var rates = struct{ from, to [2]int }{[2]int{500, 8000}, [2]int{2000, 5000}} //nolint:gochecknoglobals // a constant, if there were such

// costOfTime finds what a message costs in time on processors, for the model of
// docs/capacity.md: the slope of a line through two rates. Then it looks whether
// what that predicts for two others is so.
func (s *suite) costOfTime(ctx context.Context) error {
	var c capacity.Costs
	defer s.note(&c, false)
	return onServers(ctx, func(_ *servers.Pair, site *site) (err error) {
		bridge, err := s.startBridge(ctx, site, usage.BridgeProgram)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, bridge.stop()) }()
		var low, high map[string]float64
		if low, err = site.busyAt(ctx, rates.from[0]); err != nil {
			return err
		}
		if high, err = site.busyAt(ctx, rates.from[1]); err != nil {
			return err
		}
		line := map[string][2]float64{} // idle, us
		for _, part := range []string{usage.Redis, usage.Bridge, usage.RabbitMQ} {
			// What is done every so often, however many messages there are, may hide the rest.
			us := max(0, (high[part]-low[part])/float64(rates.from[1]-rates.from[0]))
			line[part] = [2]float64{max(0, low[part]-us*float64(rates.from[0])), us * 1e6}
		}
		c.RedisIdle, c.Redis = line[usage.Redis][0], line[usage.Redis][1]
		c.BridgeIdle, c.Bridge = line[usage.Bridge][0], line[usage.Bridge][1]
		c.BrokerIdle, c.Broker = line[usage.RabbitMQ][0], line[usage.RabbitMQ][1]
		for _, rate := range rates.to {
			found, err := site.busyAt(ctx, rate)
			if err != nil {
				return err
			}
			for part, l := range line {
				predicted := l[0] + l[1]*float64(rate)/1e6
				lab.Say("capacity: %s at %d/s: %.3f processors predicted, %.3f found", part, rate, predicted, found[part])
				s.figures[fmt.Sprintf("predicted_over_found_%s_%d", part, rate)] = figures.Round(predicted / found[part])
			}
		}
		raw, err := newRawBurst(site)
		if err != nil {
			return err
		}
		first, err := raw.publish(ctx, site, "queue")
		if err != nil {
			return err
		}
		c.Queue, err = site.drain(ctx, first)
		return err
	})
}

// busyAt returns how many processors each part keeps busy at a rate, of messages
// parked, promoted and delivered.
func (s *site) busyAt(ctx context.Context, rate int) (map[string]float64, error) {
	var none lab.Result
	before, err := usage.ProcessorTime()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if _, err := s.PaceAt(ctx, lab.Arbitrary(s.Producer), rate, capacityFor, &none); err != nil {
		return nil, err
	}
	after, err := usage.ProcessorTime()
	took := time.Since(began).Seconds()
	busy := usage.Since(before, after)
	for part := range busy {
		// The load comes and goes; what it takes counts over the time it is put on.
		busy[part] /= (took + capacityFor.Seconds()) / 2
	}
	return busy, err
}

// fillings are what the memory's costs are taken from: many messages in few
// buckets, one in each, and more in each hash. None has so many in a bucket (128)
// or a hash that Redis turns it into something larger, which the model leaves out.
func fillings() []capacity.Demand {
	const day = 24 * time.Hour
	return []capacity.Demand{
		{Pending: 200_000, Within: time.Hour},
		{Pending: 200_000, Within: 30 * day},
		{Pending: 1_000_000, Within: 6 * time.Hour},
		{Pending: 500_000, Within: 7 * day}, // to predict
		{Pending: 3_000_000, Within: day},
	}
}

// costOfBytes solves what three fillings take for what a message, a hash and a
// bucket take, and predicts two others.
func (s *suite) costOfBytes(ctx context.Context) error {
	var c capacity.Costs
	defer s.note(&c, true)
	return onServers(ctx, func(_ *servers.Pair, site *site) error {
		var equations [3][4]float64
		for i, d := range fillings() {
			d.Shards, d.Body, d.ID = site.Topology.Shards(), crowdBody, longIDLength
			if err := site.Client.FlushDB(ctx).Err(); err != nil {
				return err
			}
			overhead, err := site.fill(ctx, int(d.Pending), d.Within)
			if err != nil {
				return err
			}
			found := overhead + d.Body + d.ID
			if i < len(equations) {
				// What one of each adds, with nothing else.
				for k, one := range []capacity.Costs{{Message: 1}, {Slot: 1}, {Bucket: 1}} {
					d := d
					d.Body, d.ID = 0, 0
					equations[i][k] = one.Bytes(d) / d.Pending
				}
				equations[i][3] = overhead
				if i == len(equations)-1 {
					solved := solve(equations)
					c.Message, c.Slot, c.Bucket = solved[0], solved[1], solved[2]
				}
				continue
			}
			predicted := c.Bytes(d) / d.Pending
			lab.Say("capacity: %.0f parked: %.0f bytes each predicted, %.0f found", d.Pending, predicted, found)
			s.figures[fmt.Sprintf("predicted_over_found_bytes_%.0f", d.Pending)] = figures.Round(predicted / found)
		}
		return nil
	})
}

// solve finds three unknowns of three equations, by Cramer's rule.
func solve(e [3][4]float64) (x [3]float64) {
	determinant := func(replaced int) float64 {
		at := func(row, column int) float64 {
			if column == replaced {
				return e[row][3]
			}
			return e[row][column]
		}
		return at(0, 0)*(at(1, 1)*at(2, 2)-at(1, 2)*at(2, 1)) -
			at(0, 1)*(at(1, 0)*at(2, 2)-at(1, 2)*at(2, 0)) +
			at(0, 2)*(at(1, 0)*at(2, 1)-at(1, 1)*at(2, 0))
	}
	whole := determinant(-1)
	for i := range x {
		x[i] = determinant(i) / whole
	}
	return x
}

// costsIn takes the costs from figures that were measured before. Those that are not measured
// here stay as they are known.
func costsIn(f figures.Figures) (capacity.Costs, error) {
	c := capacity.Measured()
	for key, value := range costs(&c) {
		measured, ok := f[key]
		if !ok {
			return c, fmt.Errorf("there is no %s: make bench-scale measures it", key)
		}
		*value = measured
	}
	return c, nil
}

// Size prints what a demand takes, by costs measured before; 'delaybridge size' prints the
// same by ours.
func Size(out io.Writer, file string, parked, rate float64) error {
	f, err := figures.Read(file)
	if err != nil {
		return err
	}
	c, err := costsIn(f)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range c.Figures(capacity.Demand{
		Pending: parked, Within: 30 * 24 * time.Hour, Rate: rate, Body: crowdBody, ID: longIDLength, RedisMemory: 32e9,
		Shards: topology.Defaults().Shards, Lead: topology.Defaults().Lead, Remember: defaults.Remember,
	}) {
		fmt.Fprintf(table, "%s\t%s\n", f.What, f.Text)
	}
	return table.Flush()
}
