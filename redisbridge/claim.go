package redisbridge

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Answers of lua/claim.lua.
const (
	answerClaimed = 1
	answerHeld    = 2
	answerIdle    = 3
)

// claimed is what a claim returned.
type claimed struct {
	status   int64
	now      int64 // Redis' clock, Unix ms
	next     int64 // next promotion, or the end of another's lease; -1 for never
	turn     int64
	asked    bool
	inHand   int64 // messages claimed by this bridge and not yet settled, as Redis counts
	messages []parked
}

// span is the time between the due times of the first and the last message, in ms.
func (c *claimed) span() int64 {
	if len(c.messages) == 0 {
		return 0
	}
	return max(0, c.messages[len(c.messages)-1].due()-c.messages[0].due())
}

// parked is one message that was claimed.
type parked struct {
	id        string
	promoteAt int64 // Unix ms
	stored    string
}

// A stored message is its due time and the time it was parked, 6 bytes of Unix
// ms each, and then its envelope (lua/park.lua).
const storedHeader = 12

func (p parked) due() int64      { return unix48(p.stored) }
func (p parked) parkedAt() int64 { return unix48(p.stored[6:]) }

func unix48(s string) int64 {
	var b [8]byte
	copy(b[2:], s[:6])
	return int64(binary.BigEndian.Uint64(b[:])) //nolint:gosec // 48 bits
}

const (
	claimMost  = 256
	claimBytes = 8 << 20
)

// claim runs the claim script for up to room messages.
func (s *shard) claim(ctx context.Context, room int) (claimed, error) {
	role := "standby"
	if s.b.register.prefers(s.n) {
		role = "preferred"
	}
	asked := time.Now()
	lease := s.b.config.Lease.Milliseconds()
	answer, err := s.b.scripts.claim.Run(ctx, s.b.config.Client,
		[]string{s.keys.schedule, s.keys.state, s.keys.claimed, s.keys.envelopes},
		s.b.id, role, lease, standbyGrace.Milliseconds(), s.turn, room, claimBytes).Slice()
	heard := time.Now()
	if err != nil {
		s.clock.forget()
		return claimed{}, fmt.Errorf("claim from shard %d: %w", s.n, classify(err))
	}
	r := reply{rest: answer}
	c := claimed{status: r.int()}
	us := r.int()
	c.now, c.next = us/1000, r.int()
	s.clock.learn(asked, heard, us)
	if c.status == answerClaimed {
		c.turn, c.asked, c.inHand = r.int(), r.int() == 1, r.int()
		for len(r.rest) > 0 && r.err == nil {
			p := parked{id: r.string(), promoteAt: r.int(), stored: r.string()}
			if len(p.stored) < storedHeader {
				r.fail("message %s has no due time", p.id)
				break
			}
			c.messages = append(c.messages, p)
		}
	}
	return c, r.err
}

// readClock takes a sample of Redis' clock that does not wait for the disk,
// where none was taken of late.
func (s *shard) readClock(ctx context.Context) error {
	asked := time.Now()
	if asked.Sub(s.read) < clockWindow {
		return nil
	}
	us, err := s.b.scripts.clock.Run(ctx, s.b.config.Client, []string{s.keys.state}).Int64()
	if err != nil {
		return fmt.Errorf("read the clock of shard %d: %w", s.n, classify(err))
	}
	s.read = time.Now()
	s.clock.learn(asked, s.read, us)
	return nil
}

// now returns what Redis' clock shows at least, in Unix ms.
func (s *shard) now() int64 {
	least, _, _ := s.clock.bounds(time.Now())
	return max(least, s.last.now)
}

// settle forgets messages that the broker has.
func (s *shard) settle(ctx context.Context, done []outcome) error {
	args := make([]any, 0, 3*len(done))
	for _, o := range done {
		args = append(args, o.id, o.due(), o.promoteAt)
	}
	return s.exec(ctx, s.b.scripts.settle, []string{s.keys.schedule, s.keys.claimed, s.keys.envelopes}, args)
}

// postpone puts messages back into the schedule.
func (s *shard) postpone(ctx context.Context, back []outcome) error {
	args := append(make([]any, 0, 1+2*len(back)), s.b.id)
	for _, o := range back {
		args = append(args, o.id, o.promoteAt)
	}
	return s.exec(ctx, s.b.scripts.postpone, []string{s.keys.schedule, s.keys.state, s.keys.claimed}, args)
}

// yield gives the shard up.
func (s *shard) yield(ctx context.Context) error {
	return s.exec(ctx, s.b.scripts.yield, []string{s.keys.state}, []any{s.b.id, wakeChannel(s.b.config.Topology), s.keys.number})
}

func (s *shard) exec(ctx context.Context, script *redis.Script, keys []string, args []any) error {
	return classify(script.Run(ctx, s.b.config.Client, keys, args...).Err())
}
