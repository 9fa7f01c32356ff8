package main

import (
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/topology"
)

func TestPlanCoversEveryPathInTime(t *testing.T) {
	t.Parallel()
	d, err := topology.New(topology.Config{})
	if err != nil {
		t.Fatal(err)
	}
	tiers := d.Tiers()
	paths := map[string]int{}
	for i, c := range plan() {
		_, exact := d.Tier(c.delay)
		path := "between two tiers"
		switch {
		case c.delay == 0:
			path = "at once"
		case c.absolute:
			path = "an instant"
		case exact:
			path = "a tier"
		case c.delay < tiers[0].TTL:
			path = "shorter than the smallest tier"
		}
		paths[path]++
		switch {
		case c.twice:
			paths["published twice"]++
		case c.pays > c.delay:
			paths["paid too late"]++
		case c.pays > 0:
			paths["paid"]++
		}
		if end := time.Duration(i)*between + max(c.delay, c.pays); end > curtain-4*time.Second || end > shown {
			t.Errorf("order %s ends after %v, too late for the demo", c.order.ID, end)
		}
	}
	for _, path := range []string{
		"at once", "an instant", "a tier", "shorter than the smallest tier", "between two tiers",
		"published twice", "paid too late", "paid",
	} {
		if paths[path] == 0 {
			t.Errorf("no order is %s", path)
		}
	}
}
