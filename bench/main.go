// Command bench measures what the delay bridge costs beside the bare broker:
// the same messages published, confirmed, delayed by one at-least-once quorum
// tier and consumed, with and without the bridge, in turns within one run. Only
// the ratios mean anything on a machine that others use, too.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
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
	floods := flags.Int("floods", 4, "`number` of times each path is flooded; medians count")
	paces := flags.Int("paces", 5, "`number` of times each path keeps a pace; medians count")
	scale := flags.Bool("scale", false, "measure size and speed instead: ten million parked, a million due at once")
	only := flags.String("only", "", "with -scale: the `names` of the measurements to take, separated by commas")
	crowd := flags.Int("crowd", 10_000_000, "with -scale: `number` of messages parked where the goals say ten million")
	size := flags.String("size", "", "print what it takes to bear -parked and -rate, by the costs in this `file` of figures")
	parked := flags.Float64("parked", 100e6, "with -size: `messages` parked")
	rate := flags.Float64("rate", 50_000, "with -size: `messages` due per second")
	profile := flags.String("cpuprofile", "", "write a CPU profile of this process to this `file`")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return 2
	}
	if *floods < 1 || *paces < 1 || *crowd < 1 {
		fmt.Fprintln(os.Stderr, "bench: -floods, -paces, -crowd: use at least 1")
		return 2
	}
	if *size != "" {
		if err := sizeFor(os.Stdout, *size, *parked, *rate); err != nil {
			fmt.Fprintln(os.Stderr, "bench: -size:", err)
			return 1
		}
		return 0
	}
	stopProfile, err := startProfile(*profile)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: -cpuprofile:", err)
		return 2
	}
	defer stopProfile()
	var f figures
	if *scale {
		f, err = runScale(ctx, *only, *crowd)
	} else {
		f, err = run(ctx, os.Stdout, *floods, *paces)
	}
	f.print(os.Stdout) // what there is, after a failure too
	if err == nil && *file != "" {
		err = f.write(*file)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

func startProfile(file string) (stop func(), err error) {
	if file == "" {
		return func() {}, nil
	}
	out, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	return pprof.StopCPUProfile, pprof.StartCPUProfile(out)
}

func run(ctx context.Context, out io.Writer, floods, paces int) (f figures, err error) {
	say("starting RabbitMQ and Redis")
	pair, err := servers.Start(ctx, servers.Config{})
	if err != nil {
		return nil, err
	}
	defer func() {
		if stopErr := pair.Stop(context.WithoutCancel(ctx)); err == nil {
			err = stopErr
		}
	}()
	lab, err := newLab(ctx, pair)
	if err != nil {
		return nil, err
	}
	defer lab.close()

	results := map[string]*result{}
	for _, p := range lab.paths {
		results[p.name()] = &result{}
	}
	for _, load := range []struct {
		name   string
		rounds int
		run    func(context.Context, path, *result) (string, error)
	}{{"flood", floods, lab.flood}, {"pace", paces, lab.pace}} {
		for round := range load.rounds {
			for _, p := range inTurns(lab.paths, round) {
				said, err := load.run(ctx, p, results[p.name()])
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", load.name, p.name(), err)
				}
				say("%s %d of %d: %-9s  %s", load.name, round+1, load.rounds, p.name(), said)
			}
		}
	}
	f = report(out, lab.paths, results)
	f["inbox_over_plain"], err = lab.inbox(ctx, floods)
	return f, err
}

// inTurns reverses the order in every other round, so that a machine that gets
// slower or faster favours nobody.
func inTurns[T any](all []T, round int) []T {
	all = slices.Clone(all)
	if round%2 == 1 {
		slices.Reverse(all)
	}
	return all
}

// The load. A flood has to be long enough for its middle to count more than its
// ends; the tier's TTL has to outlast the publishing of what is measured.
const (
	flood       = 30_000
	publishers  = 512
	bodyBytes   = 256
	paceRate    = 1_000 // per second
	paceFor     = 6 * time.Second
	patience    = 2 * time.Minute
	floodDelay  = 5 * time.Second        // a tier
	floodOffset = 300 * time.Millisecond // makes it no tier
	paceDelay   = time.Second            // a tier
	paceSpread  = 5 * time.Second        // arbitrary delays lie between paceDelay and this
)
