package redisbridge

import (
	"context"
	"fmt"
	"strconv"
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
	held     bool  // there is more that is late
	expired  bool  // the last owner's lease ran out while it had work
	messages []parked
	room     int       // most messages, as asked for
	since    time.Time // when the lease began, or earlier
}

// parked is one message that was claimed.
type parked struct {
	record
	key       string
	id        string // of the key
	promoteAt int64  // Unix ms
}

// promoted says which message it is that the broker has, as lua/settle.lua reads it.
func (p parked) promoted(lead int64) []byte {
	b := make([]byte, digestAt+2*publishedLen, 40)
	copy(b, p.record[:digestAt])
	put48(b[digestAt:], p.published())
	put48(b[digestAt+publishedLen:], p.promoteAt)
	return strconv.AppendInt(b, lead, 10)
}

const (
	claimMost  = 256
	claimBytes = 8 << 20
)

// claim runs the claim script for up to room messages. Of those that are late to
// be promoted, and not overdue, it goes no more than step beyond the earliest.
func (s *shard) claim(ctx context.Context, room int, step time.Duration) (claimed, error) {
	role := "standby"
	if s.b.register.prefers(s.n) {
		role = "preferred"
	}
	asked := time.Now()
	lease := s.b.config.Lease.Milliseconds()
	args := []any{s.b.id, role, lease, standbyGrace.Milliseconds(), s.turn, room, claimBytes, step.Milliseconds()}
	for _, lead := range s.leads {
		args = append(args, lead.Milliseconds())
	}
	answer, err := s.b.scripts.claim.Run(ctx, s.b.config.Client,
		[]string{s.keys.schedule, s.keys.state, s.keys.claimed, s.keys.envelopes, s.keys.kept}, args...).Slice()
	heard := time.Now()
	if err != nil {
		s.clock.forget()
		return claimed{}, fmt.Errorf("claim from shard %d: %w", s.n, classify(err))
	}
	s.b.heard.Store(heard.UnixNano())
	r := reply{rest: answer}
	c := claimed{status: r.int(), room: room, since: asked}
	us := r.int()
	c.now, c.next = us/1000, r.int()
	s.clock.learn(asked, heard, us)
	if c.status == answerClaimed {
		c.turn, c.asked, c.inHand, c.held, c.expired = r.int(), r.int() == 1, r.int(), r.int() == 1, r.int() == 1
		for len(r.rest) > 0 && r.err == nil {
			p := parked{key: r.string(), promoteAt: r.int(), record: record(r.string())}
			p.id, p.record = idOf(p.key), p.mended()
			c.messages = append(c.messages, p)
		}
	}
	return c, r.err
}

// clockEvery is how often, at most, Redis is asked for its clock alone. Most answers
// wait for the disk, or for what Redis is about; now and then one does not.
const clockEvery = 100 * time.Millisecond

// readClock asks Redis for its clock where the answers of late do not tell the
// millisecond: by how much they leave it open, messages are late.
func (s *shard) readClock(ctx context.Context) error {
	for range 3 {
		asked := time.Now()
		least, most, known := s.clock.bounds(asked)
		if known && (most == least || asked.Sub(s.read) < clockEvery) {
			return nil
		}
		s.read = asked
		us, err := s.b.scripts.clock.Run(ctx, s.b.config.Client, []string{s.keys.state}).Int64()
		if err != nil {
			return fmt.Errorf("read the clock of shard %d: %w", s.n, classify(err))
		}
		s.clock.learn(asked, time.Now(), us)
	}
	return nil
}

// now returns what Redis' clock shows at least, in Unix ms.
func (s *shard) now() int64 {
	least, _, _ := s.clock.bounds(time.Now())
	return max(least, s.last.now)
}

// settle notes down that the broker has messages.
func (s *shard) settle(ctx context.Context, done []outcome) error {
	args := append(make([]any, 0, 2+2*len(done)), s.b.config.Window.Milliseconds(), s.b.park.config.Tombstones.Milliseconds())
	for _, o := range done {
		args = append(args, o.key, o.promoted(o.lead(o.promoteAt, s.leads)))
	}
	return s.exec(ctx, s.b.scripts.settle, []string{s.keys.schedule, s.keys.claimed, s.keys.envelopes, s.keys.kept, s.keys.state}, args)
}

// postpone puts messages back into the schedule.
func (s *shard) postpone(ctx context.Context, back []outcome) error {
	args := append(make([]any, 0, 1+4*len(back)), s.b.id)
	for _, o := range back {
		args = append(args, o.key, o.version(), o.promoteAt, o.lead(o.promoteAt, s.leads))
	}
	return s.exec(ctx, s.b.scripts.postpone, []string{s.keys.schedule, s.keys.state, s.keys.claimed, s.keys.envelopes}, args)
}

// yield gives the shard up.
func (s *shard) yield(ctx context.Context) error {
	s.b.reporter.owns(s.n, false)
	return s.exec(ctx, s.b.scripts.yield, []string{s.keys.state}, []any{s.b.id, wakeChannel(s.b.config.Topology), s.keys.number})
}

func (s *shard) exec(ctx context.Context, script *redis.Script, keys []string, args []any) error {
	return classify(script.Run(ctx, s.b.config.Client, keys, args...).Err())
}
