package promote

import (
	"context"
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
)

// nextClaim returns the claim that is under way, or makes one. Without room it
// still renews the lease.
func (s *shard) nextClaim(ctx context.Context) (store.Claimed, error) {
	if s.ahead != nil {
		answer := <-s.ahead
		s.ahead = nil
		return answer.Claimed, answer.err
	}
	return s.claim(ctx, s.room(), s.catchUp.step(time.Now()))
}

// claimAhead has the next claim under way while this one's messages are
// published, so that a backlog does not wait for Redis' disk in between.
func (s *shard) claimAhead(ctx context.Context) {
	ahead := make(chan answered, 1)
	s.ahead = ahead
	room, step := max(0, s.room()-len(s.last.Messages)), s.catchUp.step(time.Now())
	go func() {
		c, err := s.claim(ctx, room, step)
		ahead <- answered{c, err}
	}()
}

type answered struct {
	store.Claimed
	err error
}

// room returns how many messages may be claimed.
func (s *shard) room() int {
	if s.single > 0 {
		return 1 - min(1, s.moving())
	}
	return max(0, min(claimMost, s.p.config.MaxInFlight-s.moving()))
}

// moving returns how many messages are in flight, without those that wait for the answer of
// a silent target.
func (s *shard) moving() int { return max(0, s.inflight.count()-s.unanswered.Silent()) }

// discardAhead gives back what a claim that is under way gets, so that it does
// not overtake what was claimed before it and is to be claimed again.
func (s *shard) discardAhead() {
	if s.ahead == nil {
		return
	}
	answer := <-s.ahead
	s.ahead = nil
	if answer.err == nil && answer.Status == store.AnswerOwned {
		s.turn = answer.Turn
		s.giveBack(answer.Messages, nil)
	}
}

// giveBack has messages return to the schedule that were claimed in vain.
func (s *shard) giveBack(messages []*store.Parked, err error) {
	for _, m := range messages {
		s.inflight.add()
		s.inflight.complete(outcome{Parked: m, back: true, err: err})
	}
}

// claim claims up to room messages. Of those that are late to be promoted, and not overdue,
// it goes no more than step beyond the earliest.
func (s *shard) claim(ctx context.Context, room int, step time.Duration) (store.Claimed, error) {
	c, err := s.p.config.Store.Claim(ctx, s.of, store.Claim{
		Bridge: s.p.config.Bridge, Preferred: s.p.config.Prefers(s.n), Lease: s.p.config.Lease, Grace: standbyGrace,
		Turn: s.turn, Room: room, Step: step,
	})
	if err == nil {
		s.p.config.Heard()
	}
	return c, err
}

// clockEvery is how often, at most, Redis is asked for its clock alone. Most answers
// wait for the disk, or for what Redis is about; now and then one does not.
const clockEvery = 100 * time.Millisecond

// readClock asks Redis for its clock where the answers of late do not tell the
// millisecond: by how much they leave it open, messages are late.
func (s *shard) readClock(ctx context.Context) error {
	for range 3 {
		asked := time.Now()
		least, most, known := s.clock.Bounds(asked)
		if known && (most == least || asked.Sub(s.read) < clockEvery) {
			return nil
		}
		s.read = asked
		if err := s.p.config.Store.ReadClock(ctx, s.of); err != nil {
			return fmt.Errorf("read the clock of shard %s: %w", s.name, err)
		}
	}
	return nil
}

// now returns what Redis' clock shows at least, in Unix ms.
func (s *shard) now() int64 {
	least, _, _ := s.clock.Bounds(time.Now())
	return max(least, s.last.Now)
}

// reports takes the answer to a claim down.
func (s *shard) reports(c *store.Claimed) {
	owns := c.Status == store.AnswerOwned
	s.p.config.Stats.Owns(s.of, owns)
	if owns && len(c.Messages) > 0 {
		s.p.config.Stats.Claimed(c)
	}
}
