package fault

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/checker"
	"github.com/delaybridge/delaybridge/internal/fault/shop"
	"github.com/delaybridge/delaybridge/internal/fault/skew"
	"github.com/delaybridge/delaybridge/internal/fault/world"
)

// Config of a run.
type Config struct {
	// Duration is how long orders are placed, in all worlds together. What does
	// not fit is left out: the scenarios alone before their mixture, the cluster
	// before the single node.
	Duration time.Duration
	// Seed decides what the customers do and what is broken in which order.
	Seed uint64
	// Rate is the number of orders placed per second.
	Rate float64
	// Only names the one scenario to run, over and over. Defaults to all.
	Only string
	// Store names the one order store to use. Defaults to all, which share the orders.
	Store string
	// Dir keeps the history. Defaults to a new folder, which is removed when no
	// promise was broken.
	Dir string
	// Progress is told what goes on. Defaults to none.
	Progress io.Writer
}

// Defaults of [Config].
const (
	DefaultDuration = 2 * time.Minute
	DefaultRate     = 50
)

// Result of a run.
type Result struct {
	*checker.Report
	// Injected counts how often each scenario was used.
	Injected map[string]int
	// Withheld are the scenarios that were left out because this release of RabbitMQ loses messages in them.
	Withheld []string
	// Surprises are what no scenario asked for: a process that ended by itself,
	// something deleted that was not put back.
	Surprises []string
	// Dirs hold the histories, if they were kept.
	Dirs []string
}

// Good says whether every promise was kept.
func (r *Result) Good() bool { return len(r.Violations) == 0 && len(r.Surprises) == 0 }

// Run runs scenarios and checks the history. An error means that the run could
// not be made, not that a promise was broken.
func Run(ctx context.Context, c Config) (*Result, error) {
	if c.Duration <= 0 {
		c.Duration = DefaultDuration
	}
	if c.Rate <= 0 {
		c.Rate = DefaultRate
	}
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	dir, err := c.folder()
	if err != nil {
		return nil, err
	}
	// Building takes a minute or more where nothing is cached, and only one
	// scenario needs it.
	skewed := sync.OnceValues(func() (string, error) {
		path := filepath.Join(dir, "skewed")
		return path, skew.Build(ctx, "github.com/delaybridge/delaybridge/internal/fault/cmd/fault", path)
	})
	go skewed() //nolint:errcheck // the scenario calls it again, and gets the error
	defer func() {
		path, _ := skewed()
		_ = os.Remove(path)
	}()
	earlier := sync.OnceValues(func() (string, error) {
		path := filepath.Join(dir, "earlier")
		return path, buildEarlier(ctx, path)
	})
	defer func() { _ = os.Remove(filepath.Join(dir, "earlier")) }()
	result := Result{Injected: map[string]int{}}
	var reports []*checker.Report
	for _, part := range c.parts() {
		w := &stagehand{Config: c, dir: filepath.Join(dir, part.name), programs: world.Programs{Skewed: skewed, Earlier: earlier}, part: part}
		report, err := w.perform(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s (seed %d; see %s): %w", part.name, c.Seed, dir, err)
		}
		reports = append(reports, report)
		result.Surprises = append(result.Surprises, w.surprises...)
		for name, n := range w.injected {
			result.Injected[name] += n
		}
		if w.withheld != "" {
			result.Withheld = append(result.Withheld, w.withheld)
		}
		result.Dirs = append(result.Dirs, w.dir)
	}
	result.Report = checker.Merge(reports...)
	if result.Good() && c.Dir == "" {
		result.Dirs = nil
		return &result, os.RemoveAll(dir)
	}
	return &result, nil
}

func (c *Config) folder() (string, error) {
	if c.Dir != "" {
		return c.Dir, os.MkdirAll(c.Dir, 0o700)
	}
	return os.MkdirTemp("", "delaybridge-fault-")
}

func (c *Config) stores() []string {
	if c.Store != "" {
		return []string{c.Store}
	}
	return shop.Stores()
}
