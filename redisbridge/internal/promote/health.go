package promote

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/internal/health"
)

// shardHealth is how a shard is doing.
type shardHealth struct {
	mu    sync.Mutex
	owned bool
	began bool // it was this bridge's once
	since time.Time
	fault error // why the last step failed
	wrong time.Time
	lost  int64 // leases that ran out
}

// own notes down whether the shard is this bridge's.
func (h *shardHealth) own(owned, expired bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.owned != owned || h.since.IsZero() {
		h.owned, h.since = owned, time.Now()
	}
	h.began = h.began || owned
	if expired {
		h.lost++
	}
}

// end notes down how a step ended.
func (h *shardHealth) end(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil && h.fault == nil {
		h.wrong = time.Now()
	}
	h.fault = err
	if errors.Is(err, errLeaseOver) {
		h.lost++
	}
}

func (h *shardHealth) check(now time.Time, shard string, preferred bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	lasted := func(since time.Time) bool { return !h.began || now.Sub(since) >= health.Grace }
	switch {
	case h.fault != nil && lasted(h.wrong):
		return fmt.Errorf("shard %s cannot be worked on since %v: %w", shard, now.Sub(h.wrong).Truncate(time.Millisecond), h.fault)
	case preferred && !h.owned && lasted(h.since):
		return fmt.Errorf("shard %s is not promoted here yet", shard)
	}
	return nil
}
