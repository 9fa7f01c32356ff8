package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
)

// figures are the keys and values that are compared from run to run.
type figures struct {
	ExactThroughput     float64 `json:"exact_over_raw_throughput"`
	ArbitraryThroughput float64 `json:"arbitrary_over_raw_throughput"`
	ArbitraryP99        float64 `json:"arbitrary_over_raw_p99_lateness"`
	Early               int     `json:"early"`
}

// report prints what was measured. Ratios are medians over the rounds of the
// ratio within a round, so that a machine whose speed drifts spoils none.
func report(out io.Writer, paths []path, results map[string]*result) figures {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "path\tpublished/s\tdelivered/s\tlate p50 ms\tp99 ms\tmax ms\tearly\ttwice\t\n")
	early := 0
	for _, p := range paths {
		r := results[p.name()]
		early += r.early
		fmt.Fprintf(table, "%s\t%.0f\t%.0f\t%.1f\t%.1f\t%.1f\t%d\t%d\t\n", p.name(),
			median(r.published), median(r.delivered), median(r.p50), median(r.p99), r.worst, r.early, r.again)
	}
	_ = table.Flush()

	raw, exact, arbitrary := results["raw"], results["exact"], results["arbitrary"]
	f := figures{
		ExactThroughput:     ratio(exact.delivered, raw.delivered),
		ArbitraryThroughput: ratio(arbitrary.delivered, raw.delivered),
		ArbitraryP99:        ratio(arbitrary.p99, raw.p99),
		Early:               early,
	}
	fmt.Fprintf(out, "\nours / raw, medians of %d floods and %d paces:\n", len(raw.delivered), len(raw.p99))
	fmt.Fprintf(out, "  exact_over_raw_throughput        %.2f   (expect >= 0.9)\n", f.ExactThroughput)
	fmt.Fprintf(out, "  arbitrary_over_raw_throughput    %.2f   (expect >= 0.5)\n", f.ArbitraryThroughput)
	fmt.Fprintf(out, "  arbitrary_over_raw_p99_lateness  %.2f   (expect <= 2)\n", f.ArbitraryP99)
	fmt.Fprintf(out, "  early                            %d      (expect 0)\n", f.Early)
	return f
}

func ratio(ours, raw []float64) float64 {
	ratios := make([]float64, len(ours))
	for i := range ours {
		ratios[i] = ours[i] / raw[i]
	}
	return math.Round(median(ratios)*1000) / 1000
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// quantile returns the value at q of the sorted values, without interpolation.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[int(q*float64(len(sorted)-1))]
}
