// Package scale measures size and speed: up to ten million messages parked, a million due at
// once, several bridges, and what a message costs in time and memory. Each measurement has a
// file, and bridges are processes of their own, as people run them. [Size] works out from the
// costs what a demand takes.
package scale

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/bench/internal/figures"
	"github.com/delaybridge/delaybridge/bench/internal/lab"
)

// suite is a run of the measurements of size and speed.
type suite struct {
	figures figures.Figures
	crowd   int    // messages parked where the goals say ten million
	program string // delaybridge, built for this run; see bridgeProgram
	dir     string
}

type measurement struct {
	name string
	run  func(*suite, context.Context) error
}

// measurements in the order in which they are taken. Each starts servers of its
// own, so that none finds what another has left.
func measurements() []measurement {
	return []measurement{
		{"allocs", (*suite).allocs},
		{"park", (*suite).parking},
		{"promote", (*suite).promoting},
		{"bridges", (*suite).bridges},
		{"burst100k", (*suite).burst},
		{"burst1m", (*suite).flooded},
		{"crowd", (*suite).crowded},
		{"export", (*suite).exported},
		{"commands", (*suite).commands},
		{"plain", (*suite).plain},
		{"time", (*suite).costOfTime},
		{"bytes", (*suite).costOfBytes},
	}
}

// Run takes all measurements, or those named, separated by commas; crowd messages are parked where
// the goals say ten million. What there is of figures comes with an error, too.
func Run(ctx context.Context, only string, crowd int) (figures.Figures, error) {
	s := &suite{figures: figures.Figures{}, crowd: crowd}
	var err error
	if s.dir, err = os.MkdirTemp("", "delaybridge-bench-"); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(s.dir) }()
	wanted := map[string]bool{}
	for _, name := range strings.FieldsFunc(only, func(r rune) bool { return r == ',' }) {
		wanted[name] = true
	}
	for _, m := range measurements() {
		if only != "" && !wanted[m.name] {
			continue
		}
		delete(wanted, m.name)
		began := time.Now()
		lab.Say("%s", m.name)
		if err := m.run(s, ctx); err != nil {
			return s.figures, fmt.Errorf("%s: %w", m.name, err)
		}
		lab.Say("%s took %v", m.name, time.Since(began).Round(time.Second))
	}
	for name := range wanted {
		return s.figures, fmt.Errorf("-only: there is no measurement %q", name)
	}
	return s.figures, nil
}

// compare notes down the rates of ours and of a bare way, per second, as their ratio and
// for the plots.
func (s *suite) compare(what string, ours, bare []float64) {
	s.figures[what+"_over_bare"] = figures.Ratio(ours, bare)
	s.figures[what+"_per_s"], s.figures[what+"_bare_per_s"] = math.Round(figures.Median(ours)), math.Round(figures.Median(bare))
}
