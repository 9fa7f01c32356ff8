package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/checker"
	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/internal/fault/scenarios"
	"github.com/delaybridge/delaybridge/internal/fault/world"
	"github.com/delaybridge/delaybridge/internal/sleep"
)

// stagehand performs one part of a run.
type stagehand struct {
	Config
	dir       string
	programs  world.Programs
	part      part
	surprises []string
	injected  map[string]int
	withheld  string // a scenario
}

func (s *stagehand) say(format string, args ...any) {
	fmt.Fprintf(s.Progress, "fault: "+format+"\n", args...)
}

func (s *stagehand) perform(ctx context.Context) (report *checker.Report, err error) {
	s.say("%s: starting servers", s.part.name)
	w, err := world.New(ctx, world.Config{
		Dir: s.dir, Seed: s.Seed, Clustered: s.part.kind == scenarios.Clustered, Stores: s.stores(), Programs: s.programs, Say: s.say,
	})
	defer func() {
		if report == nil || len(report.Violations)+len(w.Surprises()) > 0 {
			w.SaveLogs(context.WithoutCancel(ctx))
		}
		err = errors.Join(err, w.Close(context.WithoutCancel(ctx)))
	}()
	if err != nil {
		return nil, err
	}
	if err := w.Populate(s.Rate, s.part.duration); err != nil {
		return nil, err
	}
	acts, err := s.bearable(ctx, w, s.acts(s.part))
	if err != nil {
		return nil, err
	}
	leave := w.Operate(ctx)
	in := scenarios.NewInjector(w)
	err = s.playAll(ctx, in, acts)
	leave()
	if err != nil {
		return nil, err
	}
	s.say("%s: waiting for the last orders", s.part.name)
	final, err := w.Rest(ctx)
	if err != nil {
		return nil, err
	}
	s.surprises, s.injected = w.Surprises(), in.Uses()
	if err := final.Save(s.dir); err != nil {
		return nil, err
	}
	if err := saveActs(s.dir, acts); err != nil {
		return nil, err
	}
	return Judge(s.dir)
}

// bearable takes the scenario out of acts that the broker cannot bear, and says so.
func (s *stagehand) bearable(ctx context.Context, w *world.World, acts []act) ([]act, error) {
	name, why, err := scenarios.Withheld(ctx, w)
	if err != nil || name == "" {
		return acts, err
	}
	s.say("%s: %s is left out: %s", s.part.name, name, why)
	s.withheld = name
	for n := range acts {
		acts[n].deck = slices.DeleteFunc(acts[n].deck, func(one scenarios.Scenario) bool { return one.Name == name })
	}
	acts = slices.DeleteFunc(acts, func(a act) bool { return a.hands > 0 && len(a.deck) == 0 })
	if len(acts) == 0 {
		return nil, fmt.Errorf("scenario %q: %s", name, why)
	}
	return acts, nil
}

func (s *stagehand) playAll(ctx context.Context, in *scenarios.Injector, acts []act) error {
	began := time.Now()
	var planned time.Duration
	for n := range acts {
		a := &acts[n]
		planned += a.duration
		a.began = history.Now()
		// What one act takes too long, the next one has less.
		if err := s.play(ctx, in, n, a, began.Add(planned)); err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		s.say("%s: %-28s %3d faults", s.part.name, a.name, in.Broken())
	}
	return nil
}

// play lets an act go on until its end, and its last injections come to theirs.
func (s *stagehand) play(ctx context.Context, in *scenarios.Injector, n int, a *act, end time.Time) error {
	dealer := dealer{deck: a.deck, seed: s.Seed, stream: uint64(s.part.kind)<<32 + uint64(n)<<16}
	var hands sync.WaitGroup
	failed := make([]error, a.hands)
	for hand := range a.hands {
		hands.Go(func() {
			for failed[hand] == nil && (time.Now().Before(end) || dealer.dealt() < a.atLeast) {
				one, rng := dealer.deal()
				failed[hand] = in.Inject(ctx, &one, rng)
			}
		})
	}
	hands.Wait()
	if a.hands == 0 {
		sleep.For(ctx, time.Until(end))
	}
	return errors.Join(failed...)
}
