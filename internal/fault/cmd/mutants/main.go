// Command mutants breaks the product in one place after the other, and has the fault run
// judge each: a rule must find it.
//
// The exit code is 0, 1 where a mutant was not found by its rule, 2 for wrong usage, 3 where
// a run failed and 130 after Ctrl-C.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault"
	"github.com/delaybridge/delaybridge/internal/fault/checker"
	"github.com/delaybridge/delaybridge/internal/fault/mutants"
	"github.com/delaybridge/delaybridge/internal/fault/overlay"
)

const (
	exitUnseen      = 1
	exitUsage       = 2
	exitFailed      = 3
	exitInterrupted = 130
)

const faultProgram = "github.com/delaybridge/delaybridge/internal/fault/cmd/fault"

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run returns the exit code.
func run(args []string, out, errs io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(errs)
	duration := flags.Duration("duration", fault.DefaultDuration, "how long orders are placed with each mutant")
	seed := flags.Uint64("seed", 1, "decides what happens in which order")
	only := flags.String("only", "", "those alone whose name has this `text` in it")
	list := flags.Bool("list", false, "list the mutants")
	if err := flags.Parse(args); err != nil {
		return exitUsage
	}
	chosen := slices.DeleteFunc(mutants.All(), func(m mutants.Mutant) bool { return !strings.Contains(m.Name, *only) })
	switch {
	case flags.NArg() > 0:
		fmt.Fprintf(errs, "mutants: unexpected argument %q\n", flags.Arg(0))
		return exitUsage
	case len(chosen) == 0:
		fmt.Fprintf(errs, "mutants: none has %q in its name: -list names them\n", *only)
		return exitUsage
	case *list:
		for _, m := range chosen {
			fmt.Fprintln(out, m.Name)
		}
		return 0
	}
	unseen, failed := 0, 0
	fmt.Fprintln(out, "| what is broken | rules that found it, with the number of orders |\n|---|---|")
	for _, m := range chosen {
		found, err := judge(ctx, &m, *duration, *seed, errs)
		if ctx.Err() != nil {
			fmt.Fprintln(errs, "mutants: interrupted")
			return exitInterrupted
		}
		var texts []string
		if err != nil { // the others may tell something nevertheless
			fmt.Fprintf(errs, "mutants: %s: %v\n", m.Name, err)
			texts = append(texts, "the run failed")
			failed++
		}
		seen := false
		for _, c := range found {
			text := fmt.Sprintf("%s (%d)", c.Rule, c.Broken)
			if c.Rule == m.Rule {
				seen = true
				text = "**" + text + "**"
			}
			texts = append(texts, text)
		}
		if !seen && err == nil {
			unseen++
			texts = append(texts, fmt.Sprintf("NOT by %q", m.Rule))
		}
		fmt.Fprintf(out, "| %s | %s |\n", m.Name, strings.Join(texts, "; "))
	}
	switch {
	case failed > 0:
		fmt.Fprintf(errs, "mutants: %d runs failed\n", failed)
		return exitFailed
	case unseen > 0:
		fmt.Fprintf(errs, "mutants: %d of %d were not found by their rules\n", unseen, len(chosen))
		return exitUnseen
	}
	return 0
}

// judge returns the rules that object to a run with the mutant.
func judge(ctx context.Context, m *mutants.Mutant, duration time.Duration, seed uint64, errs io.Writer) ([]checker.RuleCount, error) {
	dir, err := os.MkdirTemp("", "delaybridge-mutant-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program, kept := filepath.Join(dir, "fault"), filepath.Join(dir, "run")
	files, err := m.Build(ctx, faultProgram, program, dir)
	if err != nil {
		return nil, err
	}
	args := []string{"-duration", duration.String(), "-seed", strconv.FormatUint(seed, 10), "-dir", kept}
	if m.Only != "" {
		args = append(args, "-only", m.Only)
	}
	fmt.Fprintf(errs, "mutants: %s\n", m.Name)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), overlay.Variable+"="+files)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	said, err := cmd.CombinedOutput()
	// The program says by its exit code that a promise was broken.
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 1) {
		return nil, fmt.Errorf("%w\n%s", err, said)
	}
	worlds, err := filepath.Glob(filepath.Join(kept, "*", "history"))
	if err != nil {
		return nil, err
	}
	var reports []*checker.Report
	for _, world := range worlds {
		report, err := fault.Judge(filepath.Dir(world))
		if err != nil {
			return nil, err
		}
		reports = append(reports, report)
	}
	return slices.DeleteFunc(checker.Merge(reports...).Rules, func(c checker.RuleCount) bool { return c.Broken == 0 }), nil
}
