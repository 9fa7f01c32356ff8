package world

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/internal/sleep"
)

// compareGoroutines starts the processes anew, and returns how many goroutines each had and
// has. At rest it has the same to do in either life.
func (w *World) compareGoroutines(ctx context.Context) (all []history.Process, err error) {
	for name, p := range w.Processes {
		if slices.Contains(w.customers(), name) || p.InPython() {
			continue
		}
		counts, err := p.goroutines()
		if err != nil {
			return nil, err
		}
		if len(counts) == 0 {
			return nil, fmt.Errorf("%s has not counted its goroutines", name)
		}
		all = append(all, history.Process{Name: name, Old: counts[len(counts)-1]})
		if err := p.Terminate(); err != nil {
			w.Surprise(err.Error())
		}
		if err := p.Start(nil); err != nil {
			return nil, err
		}
	}
	deadline := time.Now().Add(startWithin)
	for i := range all {
		for all[i].Fresh == 0 {
			if time.Now().After(deadline) {
				return nil, fmt.Errorf("%s has not come to rest within %v of its start", all[i].Name, startWithin)
			}
			sleep.For(ctx, 200*time.Millisecond)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			counts, err := w.Processes[all[i].Name].goroutines()
			if err != nil {
				return nil, err
			}
			if n := len(counts); n > 2 && counts[n-1] == counts[n-2] {
				all[i].Fresh = counts[n-1]
			}
		}
	}
	return all, nil
}
