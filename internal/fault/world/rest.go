package world

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/checker"
	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/internal/fault/shop"
	"github.com/delaybridge/delaybridge/internal/sleep"
)

// restWithin is how long the last orders may take after everything is mended,
// without any of them coming.
const restWithin = 4 * time.Minute

// Rest closes the shop, waits until no acknowledged order is under way any more,
// ends all processes in order and looks at what is left.
func (w *World) Rest(ctx context.Context) (*history.Final, error) {
	for _, name := range w.customers() {
		if err := w.Processes[name].Terminate(); err != nil {
			return nil, err
		}
	}
	// Of what was not acknowledged something may still come, and fail; the longest
	// delay is over by then.
	for range 2 {
		came, err := w.awaitLast(ctx)
		if err != nil {
			return nil, err
		}
		if !came {
			break
		}
		sleep.For(ctx, shop.LongestOrder+2*time.Second)
		left, err := w.underway()
		if err != nil {
			return nil, err
		}
		if left == 0 {
			break
		}
	}
	processes, err := w.compareGoroutines(ctx)
	if err != nil {
		return nil, err
	}
	for name, p := range w.Processes {
		if slices.Contains(w.customers(), name) {
			continue
		}
		if err := p.Terminate(); err != nil {
			w.Surprise(err.Error())
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	final := &history.Final{Orders: map[string]history.OrderState{}, Processes: processes}
	return final, errors.Join(w.countOrders(final), w.emptyQueues(final), w.lookIntoRedis(final), w.askRedis(final))
}

// awaitLast waits until no order is under way that must come to its end, and says whether that
// is so.
func (w *World) awaitLast(ctx context.Context) (bool, error) {
	for began, before := time.Now(), -1; time.Since(began) < restWithin && ctx.Err() == nil; sleep.For(ctx, time.Second) {
		if err := w.ClearUnrouted(); err != nil {
			return false, err
		}
		_ = w.Replay(ctx, AtLimit()) // what stays the rules see
		left, err := w.underway()
		if err != nil || left == 0 {
			return err == nil, err
		}
		if left != before {
			began, before = time.Now(), left
		}
	}
	return false, nil
}

// HistoryDir is the folder of the history.
func (w *World) HistoryDir() string { return filepath.Join(w.Dir, "history") }

// underway counts the orders to which something must still happen.
func (w *World) underway() (int, error) {
	events, err := history.Read(w.HistoryDir())
	return checker.Underway(events), err
}
