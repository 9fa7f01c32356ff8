package promote

import (
	"context"
	"time"

	"github.com/delaybridge/delaybridge/internal/sleep"
)

const (
	// movePause is between two looks whether there is something to move.
	movePause = 250 * time.Millisecond
	// blockedPause is how long a message may be in the way that is claimed, until the next look.
	blockedPause = tick
	// movedPause is how long a shard that has nothing any more needs no look.
	movedPause = time.Second
)

// moveAll moves what the shard has to the shards of the next generation, while there are to be others and this
// bridge owns it. Of the time it leaves half to all else that Redis has to do.
func (s *shard) moveAll(ctx context.Context) {
	for ctx.Err() == nil {
		_, changed := s.p.config.Store.Shards()
		if !s.p.config.Store.Moves(s.of) {
			select {
			case <-ctx.Done():
			case <-changed:
			}
			continue
		}
		if !s.mine.Load() {
			sleep.For(ctx, movePause)
			continue
		}
		s.p.moving.Lock()
		began := time.Now()
		step, err := s.p.config.Store.Move(ctx, s.of)
		took := time.Since(began)
		s.p.moving.Unlock()
		switch {
		case ctx.Err() != nil:
		case err != nil:
			s.p.config.Logger.Warn("cannot move messages to other shards for now", "shard", s.name, "error", err)
			sleep.For(ctx, retryPause)
		case step.Over:
			sleep.For(ctx, movePause)
		case step.Blocked:
			sleep.For(ctx, max(took, blockedPause))
		default:
			sleep.For(ctx, took)
		}
	}
}
