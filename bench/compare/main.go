// Command compare measures the delay bridge beside what its users would
// otherwise take: the same messages, on the same machine, in the same run, each
// with servers of its own that are started fresh from the distribution's
// packages and sync to disk before they answer. It is a module of its own, so
// that the delay bridge does not depend on what it is compared with.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

func main() {
	os.Exit(realMain())
}

func realMain() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var s settings
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	file := flags.String("json", "", "write the figures to this `file`, as one flat JSON object")
	only := flags.String("only", "", "measure only these `names`, separated by commas: "+strings.Join(names(candidates()), ","))
	flags.IntVar(&s.rate, "rate", 1_000, "messages per `second` of the steady load")
	flags.DurationVar(&s.steady, "for", 20*time.Second, "how long the steady load goes on")
	flags.IntVar(&s.burst, "burst", 60_000, "`messages` that become due in the same second")
	flags.DurationVar(&s.patience, "patience", time.Minute, "how long after the last message was due a contender is cut off")
	flags.IntVar(&s.tries, "tries", 1, "how `often` at most a load is applied while others disturb it; the least disturbed counts")
	flags.DurationVar(&s.quiet, "quiet", 0, "how long to wait at most, before each load, until no other program uses the machine")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return 2
	}
	chosen, err := choose(*only)
	if s.rate < 1 || s.burst < 1 || s.tries < 1 || s.steady < time.Second || s.patience <= 0 {
		err = errors.Join(err, errors.New("-rate, -burst, -tries: use at least 1; -for: at least 1s; -patience: more than 0"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		return 2
	}
	if err := run(ctx, os.Stdout, s, chosen, *file); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		return 1
	}
	return 0
}

func names(list []candidate) []string {
	names := make([]string, len(list))
	for i, c := range list {
		names[i] = c.name
	}
	return names
}

// choose finds the candidates that are named; no name is all.
func choose(only string) ([]candidate, error) {
	all := candidates()
	if only == "" {
		return all, nil
	}
	var chosen []candidate
	for name := range strings.SplitSeq(only, ",") {
		i := slices.Index(names(all), name)
		if i < 0 {
			return nil, fmt.Errorf("-only %s: there is %s", name, strings.Join(names(all), ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// run measures one after the other. One that fails does not spare the others.
func run(ctx context.Context, out io.Writer, s settings, chosen []candidate, file string) error {
	var (
		rows   []row
		failed []error
	)
	for _, c := range chosen {
		if ctx.Err() != nil {
			break
		}
		r := row{name: c.name}
		for _, load := range []struct {
			name  string
			apply func(*trial, context.Context) (measured, error)
			into  **measured
		}{{"steady", (*trial).steady, &r.steady}, {"burst", (*trial).burst, &r.burst}} {
			m, err := c.measure(ctx, s, load.apply)
			if err != nil {
				err = fmt.Errorf("%s, %s: %w", c.name, load.name, err)
				fmt.Fprintln(os.Stderr, "compare:", err)
				failed = append(failed, err)
				if ctx.Err() != nil {
					break // and report what there is
				}
				continue
			}
			*load.into = m
			fmt.Fprintf(os.Stderr, "compare: %-6s  %-6s  %d of %d delivered, late p50 %s, p99 %s, max %s\n",
				c.name, load.name, m.delivered, m.messages, span(m.p50), span(m.p99), span(m.worst))
		}
		rows = append(rows, r)
	}
	figures := report(out, s, rows)
	if file != "" {
		content, err := json.MarshalIndent(figures, "", "  ")
		if err == nil {
			err = os.WriteFile(file, append(content, '\n'), 0o644)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

func rounded(value float64) float64 { return math.Round(value*1000) / 1000 }
