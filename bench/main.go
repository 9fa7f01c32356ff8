// Command bench measures what the delay bridge costs beside the bare broker:
// the same messages published, confirmed, delayed by one at-least-once quorum
// tier and consumed, with and without the bridge, in turns within one run. Only
// the ratios mean anything on a machine that others use, too.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"

	"github.com/delaybridge/delaybridge/bench/internal/figures"
	"github.com/delaybridge/delaybridge/bench/scale"
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
	atScale := flags.Bool("scale", false, "measure size and speed instead: ten million parked, a million due at once")
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
		if err := scale.Size(os.Stdout, *size, *parked, *rate); err != nil {
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
	var f figures.Figures
	if *atScale {
		f, err = scale.Run(ctx, *only, *crowd)
	} else {
		f, err = measureOverhead(ctx, os.Stdout, *floods, *paces)
	}
	f.Print(os.Stdout) // what there is, after a failure too
	if err == nil && *file != "" {
		err = f.Write(*file)
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
