package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/delaybridge/delaybridge/internal/usage"
)

// row is what was measured of one contender; a load that failed is nil.
type row struct {
	name          string
	steady, burst *measured
}

// report prints the tables, and returns the figures under keys that stay the
// same from run to run.
func report(out io.Writer, s settings, rows []row) map[string]float64 {
	figures := map[string]float64{}
	fmt.Fprintf(out, "\n%d/s for %v, delays of %v to %v (raw: %v)\n\n", s.rate, s.steady, shortest, longest, middle)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\tlate p50\tp99\tmax\tearly\tat worst\ttwice\tservers' CPU\tbridge's\tclient's\tothers\t")
	for _, r := range rows {
		if m := r.steady; m != nil {
			atLeast := atLeast(m)
			fmt.Fprintf(table, "%s\t%s%s\t%s%s\t%s%s\t%d\t%s\t%d\t%s\t%s\n", r.name,
				atLeast(0.50), span(m.p50), atLeast(0.99), span(m.p99), atLeast(1), span(m.worst),
				m.early, span(m.earliest), m.twice, processor(m), remark(m))
			m.figures(figures, "compare_"+r.name)
		}
	}
	_ = table.Flush()

	fmt.Fprintf(out, "\n%d messages due in the same second\n\n", s.burst)
	fmt.Fprintln(table, "\tpublished/s\tdelivered/s\tlate p50\tmax\tearly\tservers' CPU\tbridge's\tclient's\tothers\tper waiting message\t")
	for _, r := range rows {
		if m := r.burst; m != nil {
			atLeast := atLeast(m)
			fmt.Fprintf(table, "%s\t%.0f\t%.0f\t%s%s\t%s%s\t%d\t%s\t%s\t%s\n", r.name,
				m.published, m.perSecond, atLeast(0.50), span(m.p50), atLeast(1), span(m.worst),
				m.early, processor(m), memory(m), remark(m))
			m.figures(figures, "compare_"+r.name+"_burst")
		}
	}
	_ = table.Flush()
	return figures
}

// atLeast marks a quantile that depends on messages which have not come out.
func atLeast(m *measured) func(q float64) string {
	return func(q float64) string {
		if float64(m.delivered) < float64(m.messages)*q {
			return "> "
		}
		return ""
	}
}

// span prints milliseconds, with the digits that mean something.
func span(ms float64) string {
	switch {
	case ms == 0:
		return "0"
	case ms > -100 && ms < 100:
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.0f ms", ms)
}

// processor prints seconds of the servers, of the bridge and of this process, and
// the share of the machine that others used meanwhile.
func processor(m *measured) string {
	bridge := "-"
	if used, ok := m.processor[usage.Bridge]; ok {
		bridge = fmt.Sprintf("%.1f s", used)
	}
	return fmt.Sprintf("%.1f s\t%s\t%.1f s\t%.0f%%", serverTime(m), bridge, m.processor[usage.Client], m.disturbed*100)
}

// serverTime is the processor time of all servers of a contender.
func serverTime(m *measured) float64 {
	sum := 0.0
	for _, server := range []string{usage.RabbitMQ, usage.Redis, usage.PostgreSQL} {
		sum += m.processor[server]
	}
	return sum
}

func memory(m *measured) string {
	if m.memory == nil {
		return "not read"
	}
	var parts []string
	for _, server := range slices.Sorted(maps.Keys(m.memory)) {
		parts = append(parts, fmt.Sprintf("%.0f B %s", m.memory[server], server))
	}
	return strings.Join(parts, ", ")
}

// remark says what the columns do not.
func remark(m *measured) string {
	var parts []string
	if m.delivered < m.messages {
		parts = append(parts, fmt.Sprintf("not done after %.0f s: %d of %d delivered", m.patience.Seconds(), m.delivered, m.messages))
	}
	if m.failed > 0 {
		parts = append(parts, fmt.Sprintf("%d not confirmed: %v", m.failed, m.err))
	}
	return strings.Join(parts, "; ")
}

func (m *measured) figures(into map[string]float64, prefix string) {
	for key, value := range map[string]float64{
		"p50_ms": m.p50, "p99_ms": m.p99, "max_ms": m.worst,
		"early": float64(m.early), "early_max_ms": m.earliest, "twice": float64(m.twice),
		"undelivered": float64(m.messages - m.delivered), "unconfirmed": float64(m.failed),
		"published_per_s": m.published, "delivered_per_s": m.perSecond,
		"servers_cpu_s": serverTime(m), "disturbed": m.disturbed,
	} {
		into[prefix+"_"+key] = rounded(value)
	}
	for what, used := range m.processor {
		into[prefix+"_"+what+"_cpu_s"] = rounded(used)
	}
	for server, bytes := range m.memory {
		into[prefix+"_"+server+"_bytes_per_message"] = rounded(bytes)
	}
}
