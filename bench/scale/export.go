package scale

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/delaybridge/delaybridge/bench/internal/figures"
	"github.com/delaybridge/delaybridge/bench/internal/lab"
	"github.com/delaybridge/delaybridge/internal/servers"
)

// exported measures what an export of ten million takes, and how late messages come beside it.
func (s *suite) exported(ctx context.Context) error {
	return onServers(ctx, func(_ *servers.Pair, site *site) (err error) {
		if _, err := site.fill(ctx, s.crowd, crowdSpread); err != nil {
			return err
		}
		if err := site.rewriteAOF(ctx); err != nil {
			return err
		}
		bridge, err := s.startBridge(ctx, site, "export")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, bridge.stop()) }()
		var before, beside lab.Result
		for range crowdRounds {
			if _, err := site.Pace(ctx, lab.Arbitrary(site.Producer), &before); err != nil {
				return err
			}
		}
		export := s.startExport(ctx, site)
		for running := true; running; {
			if _, err := site.Pace(ctx, lab.Arbitrary(site.Producer), &beside); err != nil {
				return err
			}
			select {
			case <-export.ended:
				running = false
			default:
			}
		}
		if export.err != nil {
			return fmt.Errorf("export: %w", export.err)
		}
		if export.lines < s.crowd {
			return fmt.Errorf("export: %d lines of %d messages", export.lines, s.crowd)
		}
		s.figures["export_per_s"] = math.Round(float64(export.lines) / export.took.Seconds())
		s.figures["export_rss_mb"] = math.Round(export.peakMB)
		s.figures["export_p99_over_before"] = figures.Round(figures.Median(beside.P99) / figures.Median(before.P99))
		s.figures["early"] += float64(before.Early + beside.Early)
		lab.Say("export: %d lines in %.0f s, %.0f MB; p99 %.1f ms before and %.1f ms beside it",
			export.lines, export.took.Seconds(), export.peakMB, figures.Median(before.P99), figures.Median(beside.P99))
		return nil
	})
}

// exportProgram is an export in a process of its own, as people run it. The fields are set when it has ended.
type exportProgram struct {
	ended  chan struct{}
	lines  int
	took   time.Duration
	peakMB float64 // resident
	err    error
}

// Write counts the lines of the export.
func (e *exportProgram) Write(text []byte) (int, error) {
	e.lines += bytes.Count(text, []byte("\n"))
	return len(text), nil
}

func (s *suite) startExport(ctx context.Context, site *site) *exportProgram {
	e := &exportProgram{ended: make(chan struct{})}
	cmd := exec.CommandContext(ctx, s.program, "export")
	cmd.Env = append(os.Environ(), "DELAYBRIDGE_REDIS_URL="+site.Redis.URL(), "DELAYBRIDGE_PREFIX="+site.Topology.Prefix())
	cmd.Stdout, cmd.Stderr = e, os.Stderr
	go func() {
		defer close(e.ended)
		began := time.Now()
		e.err = cmd.Run()
		e.took = time.Since(began)
		if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			e.peakMB = float64(usage.Maxrss) / 1024
		}
	}()
	return e
}
