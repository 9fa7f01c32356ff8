package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/internal/servers"
)

// scale is a run of the measurements of size and speed.
type scale struct {
	figures figures
	crowd   int    // messages parked where the goals say ten million
	program string // delaybridge, built for this run; see bridgeProgram
	dir     string
}

type measurement struct {
	name string
	run  func(*scale, context.Context) error
}

// measurements in the order in which they are taken. Each starts servers of its
// own, so that none finds what another has left.
func measurements() []measurement {
	return []measurement{
		{"allocs", (*scale).allocs},
		{"park", (*scale).parking},
		{"promote", (*scale).promoting},
		{"bridges", (*scale).bridges},
		{"burst100k", (*scale).burst},
		{"burst1m", (*scale).flooded},
		{"crowd", (*scale).crowded},
		{"export", (*scale).exported},
		{"commands", (*scale).commands},
		{"plain", (*scale).plain},
		{"time", (*scale).costOfTime},
		{"bytes", (*scale).costOfBytes},
	}
}

// runScale takes all measurements, or those named.
func runScale(ctx context.Context, only string, crowd int) (figures, error) {
	s := &scale{figures: figures{}, crowd: crowd}
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
		say("%s", m.name)
		if err := m.run(s, ctx); err != nil {
			return s.figures, fmt.Errorf("%s: %w", m.name, err)
		}
		say("%s took %v", m.name, time.Since(began).Round(time.Second))
	}
	for name := range wanted {
		return s.figures, fmt.Errorf("-only: there is no measurement %q", name)
	}
	return s.figures, nil
}

// compare notes down the rates of ours and of a bare way, per second, as their ratio and
// for the plots.
func (s *scale) compare(what string, ours, bare []float64) {
	s.figures[what+"_over_bare"] = ratio(ours, bare)
	s.figures[what+"_per_s"], s.figures[what+"_bare_per_s"] = math.Round(median(ours)), math.Round(median(bare))
}

// onServers runs a measurement with a pair of servers and a site on them.
func onServers(ctx context.Context, do func(*servers.Pair, *site) error) error {
	pair, err := servers.Start(ctx, servers.Config{})
	if err != nil {
		return err
	}
	s, err := newSite(ctx, "bench", pair.RabbitMQ, pair.Redis)
	if err == nil {
		err = do(pair, s)
		s.close()
	}
	return errors.Join(err, pair.Stop(context.WithoutCancel(ctx)))
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}
