// Command fault runs the fault injector: it starts servers and the processes of
// a shop, breaks what it can, and checks that no promise was broken.
//
// The last line on standard output is the account. The exit code is 0, or 1
// where a promise was broken, 2 for wrong usage, 3 where the run itself failed
// and 130 after Ctrl-C.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/delaybridge/delaybridge/internal/fault"
	"github.com/delaybridge/delaybridge/internal/fault/pause"
	"github.com/delaybridge/delaybridge/internal/fault/roles"
	"github.com/delaybridge/delaybridge/internal/fault/scenarios"
	"github.com/delaybridge/delaybridge/internal/fault/shop"
)

const (
	exitBroken      = 1
	exitUsage       = 2
	exitFailed      = 3
	exitInterrupted = 130
)

func main() {
	if code, asked := roles.Play(); asked {
		os.Exit(code)
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit code.
func run(args []string, out, errs io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	flags := flag.NewFlagSet("fault", flag.ContinueOnError)
	flags.SetOutput(errs)
	var c fault.Config
	flags.DurationVar(&c.Duration, "duration", fault.DefaultDuration, "how long orders are placed")
	flags.Uint64Var(&c.Seed, "seed", 0, "decides what happens in which order (default: another one each time)")
	flags.Float64Var(&c.Rate, "rate", fault.DefaultRate, "orders per second")
	flags.StringVar(&c.Only, "only", "", "run this `scenario` alone")
	flags.StringVar(&c.Store, "store", "", "keep all orders in this `store`: "+strings.Join(shop.Stores(), ", ")+" (default: all of them share the orders)")
	flags.StringVar(&c.Dir, "dir", "", "keep the history in this `folder`")
	still := flags.Bool("pause", false, "measure what it costs when every bridge stands still, instead of breaking anything")
	list := flags.Bool("list", false, "list the scenarios")
	check := flags.String("check", "", "check the history in this `folder` again, instead of running anything")
	story := flags.String("story", "", "tell the story of this `order`, with -check")
	if err := flags.Parse(args); err != nil {
		return exitUsage
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(errs, "fault: unexpected argument %q\n", flags.Arg(0))
		return exitUsage
	}
	names := scenarios.Names()
	switch {
	case *list:
		for _, name := range names {
			fmt.Fprintln(out, name)
		}
		return 0
	case *still:
		return measure(ctx, out, errs)
	case *check != "":
		return judge(*check, *story, out, errs)
	}
	if c.Duration <= 0 || c.Rate <= 0 {
		fmt.Fprintf(errs, "fault: -duration %v, -rate %v: use more than 0\n", c.Duration, c.Rate)
		return exitUsage
	}
	if c.Only != "" && !slices.Contains(names, c.Only) {
		fmt.Fprintf(errs, "fault: there is no scenario %q: -list names them\n", c.Only)
		return exitUsage
	}
	if c.Store != "" && !slices.Contains(shop.Stores(), c.Store) {
		fmt.Fprintf(errs, "fault: there is no store %q: use one of %s\n", c.Store, strings.Join(shop.Stores(), ", "))
		return exitUsage
	}
	if c.Seed == 0 {
		c.Seed = rand.Uint64N(1_000_000) + 1
	}
	c.Progress = errs
	fmt.Fprintf(errs, "fault: seed %d for %v\n", c.Seed, c.Duration)
	result, err := fault.Run(ctx, c)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(errs, "fault: interrupted")
		return exitInterrupted
	case err != nil:
		fmt.Fprintln(errs, "fault:", err)
		return exitFailed
	}
	return result.Print(out, errs, c)
}

// measure looks at promise 6.
func measure(ctx context.Context, out, errs io.Writer) int {
	good, err := pause.Measure(ctx, out, errs)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(errs, "pause: interrupted")
		return exitInterrupted
	case err != nil:
		fmt.Fprintln(errs, "pause:", err)
		return exitFailed
	case !good:
		return exitBroken
	}
	return 0
}

// judge checks a history that was kept.
func judge(dir, story string, out, errs io.Writer) int {
	report, err := fault.Judge(dir)
	if err != nil {
		fmt.Fprintln(errs, "fault:", err)
		return exitFailed
	}
	if story != "" {
		report.Story(out, story)
		return 0
	}
	report.Table(out)
	fmt.Fprintln(out)
	report.RuleTable(out)
	for _, v := range report.Violations {
		fmt.Fprintln(out, v)
	}
	if len(report.Violations) > 0 {
		return exitBroken
	}
	return 0
}
