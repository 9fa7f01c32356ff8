package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/delaybridge/delaybridge/internal/capacity"
	"github.com/delaybridge/delaybridge/internal/defaults"
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

// costsIn takes the costs from figures that were measured before. Those that are not measured
// here stay as they are known.
func costsIn(f figures) (capacity.Costs, error) {
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

// sizeFor prints what a demand takes, by costs measured before; 'delaybridge size' prints the
// same by ours.
func sizeFor(out io.Writer, file string, parked, rate float64) error {
	f, err := readFigures(file)
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
