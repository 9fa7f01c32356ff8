package main

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"github.com/delaybridge/delaybridge/bench/internal/figures"
	"github.com/delaybridge/delaybridge/bench/internal/lab"
)

// report prints what was measured of the paths. Ratios are medians over the
// rounds of the ratio within a round, so that a machine whose speed drifts
// spoils none.
func report(out io.Writer, paths []lab.Path, results map[string]*lab.Result) figures.Figures {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "path\tpublished/s\tdelivered/s\tlate p50 ms\tp99 ms\tmax ms\tearly\ttwice\t\n")
	early := 0
	for _, p := range paths {
		r := results[p.Name()]
		early += r.Early
		fmt.Fprintf(table, "%s\t%.0f\t%.0f\t%.1f\t%.1f\t%.1f\t%d\t%d\t\n", p.Name(),
			figures.Median(r.Published), figures.Median(r.Delivered), figures.Median(r.P50), figures.Median(r.P99), r.Worst, r.Early, r.Again)
	}
	_ = table.Flush()

	raw, exact, arbitrary := results["raw"], results["exact"], results["arbitrary"]
	fmt.Fprintf(out, "\nours / raw, medians of %d floods and %d paces:\n", len(raw.Delivered), len(raw.P99))
	f := figures.Figures{
		"exact_over_raw_throughput":       figures.Ratio(exact.Delivered, raw.Delivered),
		"arbitrary_over_raw_throughput":   figures.Ratio(arbitrary.Delivered, raw.Delivered),
		"arbitrary_over_raw_p99_lateness": figures.Ratio(arbitrary.P99, raw.P99),
		"early":                           float64(early),
	}
	for name, r := range results { // for the plots
		f[name+"_delivered_per_s"] = math.Round(figures.Median(r.Delivered))
		f[name+"_p50_ms"], f[name+"_p99_ms"], f[name+"_max_ms"] = figures.Round(figures.Median(r.P50)), figures.Round(figures.Median(r.P99)), figures.Round(r.Worst)
	}
	return f
}
