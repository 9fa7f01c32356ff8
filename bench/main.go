// Command bench measures what the delay bridge costs beside the bare broker:
// the same messages published, confirmed, delayed by one at-least-once quorum
// tier and consumed, with and without the bridge, in turns within one run. Only
// the ratios mean anything on a machine that others use, too.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/delaybridge/delaybridge/internal/servers"
)

func main() {
	os.Exit(realMain())
}

func realMain() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	file := flags.String("json", "", "write the figures to this `file`, as one flat JSON object")
	rounds := flags.Int("rounds", 3, "`number` of rounds, of which the medians count")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return 2
	}
	if *rounds < 1 {
		fmt.Fprintln(os.Stderr, "bench: -rounds: use at least 1")
		return 2
	}
	if err := run(ctx, os.Stdout, *file, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

func run(ctx context.Context, out io.Writer, file string, rounds int) (err error) {
	fmt.Fprintln(os.Stderr, "bench: starting RabbitMQ and Redis")
	pair, err := servers.Start(ctx, servers.Config{})
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := pair.Stop(context.WithoutCancel(ctx)); err == nil {
			err = stopErr
		}
	}()
	lab, err := newLab(ctx, pair)
	if err != nil {
		return err
	}
	defer lab.close()

	results := map[string]*result{}
	for _, p := range lab.paths {
		results[p.name()] = &result{}
	}
	for round := range rounds {
		for _, p := range lab.paths {
			r := results[p.name()]
			if err := lab.measure(ctx, p, r); err != nil {
				return fmt.Errorf("%s: %w", p.name(), err)
			}
			fmt.Fprintf(os.Stderr, "bench: round %d of %d: %-9s %5.0f/s published, %5.0f/s delivered, late p50 %.1f ms, p99 %.1f ms\n",
				round+1, rounds, p.name(), r.published[round], r.delivered[round], r.p50[round], r.p99[round])
		}
	}
	figures := report(out, lab.paths, results)
	if file == "" {
		return nil
	}
	content, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(content, '\n'), 0o644)
}

// The load. A flood has to be long enough for its middle to count more than its
// ends; the tier's TTL has to outlast the publishing of what is measured.
const (
	flood       = 30_000
	publishers  = 512
	bodyBytes   = 256
	paceRate    = 1_000 // per second
	paceFor     = 8 * time.Second
	patience    = 2 * time.Minute
	floodDelay  = 5 * time.Second        // a tier
	floodOffset = 300 * time.Millisecond // makes it no tier
	paceDelay   = time.Second            // a tier
	paceSpread  = 5 * time.Second        // arbitrary delays lie between paceDelay and this
)
