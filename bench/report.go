package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"text/tabwriter"
)

// figures are the keys and values that are compared from run to run.
type figures map[string]float64

// write writes f as one flat JSON object.
func (f figures) write(file string) error {
	content, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(content, '\n'), 0o644)
}

// readFigures reads what write has written.
func readFigures(file string) (figures, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var f figures
	if err := json.Unmarshal(content, &f); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return f, nil
}

// goals are what the figures must reach.
func goals() []goal {
	return []goal{
		{"exact_over_raw_throughput", "delays that equal a tier / the bare tier", atLeast, 0.9},
		{"arbitrary_over_raw_throughput", "any other delay / the bare tier", atLeast, 0.6},
		{"arbitrary_over_raw_p99_lateness", "the same, p99 lateness at 1,000/s", atMost, 1.5},
		{"inbox_over_plain", "foreign clients, through the inbox into Redis / into a plain queue", atLeast, 0.45},
		{"early", "messages that came out before they were due", atMost, 0},
		{"allocs_publish", "allocations of a publish beyond the client library's", atMost, 3},
		{"park_over_bare", "parking / ZADD and HSET of as many bytes", atLeast, 0.4},
		{"promote_over_bare", "promoting a backlog / publishing it from memory", atLeast, 0.7},
		{"two_bridges_over_one", "the same with a second bridge process / with one", atLeast, 1},
		{"burst100k_over_raw", "draining what is due in one second / a bare queue of it", atLeast, 0.8},
		{"burst1m_lost", "messages lost of a million due in one second", atMost, 0},
		{"burst1m_rss_mb", "memory of the bridge meanwhile, at its peak", below, 256},
		{"redis_overhead_bytes", "memory of a parked message over body and ID", atMost, 110},
		{"cost_10m_over_10k", "Redis' time to park, cancel, promote beside 10 million / 10 thousand", atMost, 1.3},
		{"loaded_p99_over_empty", "p99 lateness at 1,000/s beside 10 million / nobody", atMost, 1.5},
		{"export_rss_mb", "memory of an export of 10 million, at its peak", below, 256},
		{"export_p99_over_before", "p99 lateness at 1,000/s beside it / before it", atMost, 1.5},
		{"idle_commands_per_s", "Redis commands of a bridge with nothing due", below, 1},
		{"idle_cpu", "percent of a processor that it takes", below, 0.5},
	}
}

type goal struct {
	key, what string
	is        comparison
	bound     float64
}

type comparison string

const (
	atLeast comparison = ">="
	atMost  comparison = "<="
	below   comparison = "<"
)

func (g goal) reached(value float64) bool {
	switch g.is {
	case atLeast:
		return value >= g.bound
	case atMost:
		return value <= g.bound
	default:
		return value < g.bound
	}
}

// print compares f with the goals; what has no goal follows.
func (f figures) print(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	rest := map[string]bool{}
	for key := range f {
		rest[key] = true
	}
	for _, g := range goals() {
		value, measured := f[g.key]
		if !measured {
			continue
		}
		delete(rest, g.key)
		missed := ""
		if !g.reached(value) {
			missed = "missed"
		}
		fmt.Fprintf(table, "%s\t%.4g\t%s %g\t%s\t%s\n", g.key, value, g.is, g.bound, missed, g.what)
	}
	for _, key := range slices.Sorted(maps.Keys(rest)) {
		fmt.Fprintf(table, "%s\t%.4g\n", key, f[key])
	}
	_ = table.Flush()
}

// report prints what was measured of the paths. Ratios are medians over the
// rounds of the ratio within a round, so that a machine whose speed drifts
// spoils none.
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
	fmt.Fprintf(out, "\nours / raw, medians of %d floods and %d paces:\n", len(raw.delivered), len(raw.p99))
	f := figures{
		"exact_over_raw_throughput":       ratio(exact.delivered, raw.delivered),
		"arbitrary_over_raw_throughput":   ratio(arbitrary.delivered, raw.delivered),
		"arbitrary_over_raw_p99_lateness": ratio(arbitrary.p99, raw.p99),
		"early":                           float64(early),
	}
	for name, r := range results { // for the plots
		f[name+"_delivered_per_s"] = math.Round(median(r.delivered))
		f[name+"_p50_ms"], f[name+"_p99_ms"], f[name+"_max_ms"] = round3(median(r.p50)), round3(median(r.p99)), round3(r.worst)
	}
	return f
}

func ratio(ours, raw []float64) float64 {
	ratios := make([]float64, len(ours))
	for i := range ours {
		ratios[i] = ours[i] / raw[i]
	}
	return round3(median(ratios))
}

func round3(x float64) float64 { return math.Round(x*1000) / 1000 }

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// quantile returns the value at q of the sorted values, without interpolation.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[int(q*float64(len(sorted)-1))]
}
