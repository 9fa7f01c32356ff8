package telemetry

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// However many ask, there is one check at a time, and what it found is the answer for a while.
func TestProbesShareACheck(t *testing.T) {
	t.Parallel()
	var checks, now, most atomic.Int32
	wrong := errors.New("away")
	p := &probe{check: func(context.Context) error {
		checks.Add(1)
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		return wrong
	}}
	began := time.Now()
	var asked sync.WaitGroup
	for range 200 {
		asked.Go(func() {
			if err := p.ask(); !errors.Is(err, wrong) {
				t.Errorf("got %v", err)
			}
		})
	}
	asked.Wait()
	if seconds := int32(time.Since(began)/probeFresh) + 1; checks.Load() > seconds || most.Load() != 1 {
		t.Errorf("%d checks, %d at a time, in %v", checks.Load(), most.Load(), time.Since(began))
	}
}
