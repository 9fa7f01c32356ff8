package fault

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/internal/fault/shop"
)

// restWithin is how long the last orders may take after everything is mended,
// without any of them coming.
const restWithin = 4 * time.Minute

// rest closes the shop, waits until no acknowledged order is under way any more,
// ends all processes in order and looks at what is left.
func (w *world) rest(ctx context.Context) (*history.Final, error) {
	for _, name := range w.customers() {
		if err := w.processes[name].terminate(); err != nil {
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
		pause(ctx, shop.LongestOrder+2*time.Second)
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
	for name, p := range w.processes {
		if slices.Contains(w.customers(), name) {
			continue
		}
		if err := p.terminate(); err != nil {
			w.surprise(err.Error())
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
func (w *world) awaitLast(ctx context.Context) (bool, error) {
	for began, before := time.Now(), -1; time.Since(began) < restWithin && ctx.Err() == nil; pause(ctx, time.Second) {
		if err := w.clearUnrouted(); err != nil {
			return false, err
		}
		_ = w.replay(ctx, atLimit()) // what stays the rules see
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

func (w *world) historyDir() string { return filepath.Join(w.dir, "history") }

// underway counts the orders to which something must still happen.
func (w *world) underway() (int, error) {
	events, err := history.Read(w.historyDir())
	return history.Underway(events), err
}
