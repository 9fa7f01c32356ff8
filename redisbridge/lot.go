package redisbridge

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/message"
)

const (
	// lotMost and lotBytes bound what is sent to Redis at once: a script holds
	// everything else up while it runs. One message may be larger.
	lotMost  = 512
	lotBytes = 1 << 20
	// lotsAtOnce is how many lots may be under way, if the next one is worth it:
	// one is encoded here while another is on its way to Redis' disk.
	lotsAtOnce = 8
	lotWorth   = 192
)

// parking is one message on its way into Redis. It gets exactly one answer, after which
// nobody but the caller touches it: it may be used again, for another message.
type parking struct {
	shard  int
	slot   slot
	key    string
	called time.Time // a delay runs from here
	when   message.When
	alone  bool   // it is refused where another message has its ID
	stored []byte // the record that Redis is to keep, but for the first two instants

	ticket message.Ticket
	answer chan error // takes one
	sent   bool       // guarded by lots.mu; it can no longer be called back
}

const (
	// envelopeRoom is for what an envelope has beside a body, as a rule.
	envelopeRoom = 128
	// spareBytes bounds what is kept of a record for the next one.
	spareBytes = 4 << 10
)

// spare keeps what parking a message takes, for the next one: that a producer has
// thousands on their way costs it more in garbage than in work.
type spare struct{ pool sync.Pool }

func (s *spare) take() *parking {
	if one, ok := s.pool.Get().(*parking); ok {
		return one
	}
	return &parking{answer: make(chan error, 1)}
}

// put takes back one that has had its answer: never one whose caller has gone away, which is
// still on its way.
func (s *spare) put(one *parking) {
	if cap(one.stored) > spareBytes {
		one.stored = nil
	}
	*one = parking{stored: one.stored[:0], answer: one.answer}
	s.pool.Put(one)
}

func (p *parking) record() record { return record(p.stored) }

// A request is what lua/park.lua wants to know of a message, packed.
type request [13 + len(slot{})]byte

// What the first byte of a request says.
const (
	wantsDelay   = 1
	wantsNoLane  = 2
	wantsIDAlone = 4
)

// requestFor packs instants and delays, which fit into 6 bytes: message.When.Validate
// sees to it.
func requestFor(w message.When, notLaterThan int64, s slot, direct, alone bool) (packed request) {
	delay, relative := w.Relative()
	ms := delay.Milliseconds()
	if relative {
		packed[0] = wantsDelay
	} else {
		instant, _ := w.Instant()
		ms = instant.UnixMilli()
	}
	if direct {
		packed[0] |= wantsNoLane
	}
	if alone {
		packed[0] |= wantsIDAlone
	}
	put48(packed[1:], max(0, ms))
	put48(packed[7:], notLaterThan)
	copy(packed[13:], s[:])
	return packed
}

func put48(b []byte, n int64) {
	var wide [8]byte
	binary.BigEndian.PutUint64(wide[:], uint64(n)) //nolint:gosec // not negative
	copy(b, wide[2:8])
}

// lots gather messages that are parked at the same time, so that they share
// scripts, round trips and flushes to disk. While one lot is under way the next
// one grows: so the lots are as large as the load is heavy, and nobody waits for
// company.
type lots struct {
	send func([]*parking) // parks them and gives each its answer

	mu       sync.Mutex
	waiting  []*parking
	underWay int
}

// park returns once p has its answer, or ctx has ended.
func (l *lots) park(ctx context.Context, p *parking) error {
	l.mu.Lock()
	l.waiting = append(l.waiting, p)
	if l.underWay == 0 || l.underWay < lotsAtOnce && len(l.waiting) >= lotWorth {
		l.underWay++
		go l.sendAll()
	}
	l.mu.Unlock()
	select {
	case err := <-p.answer:
		return err
	case <-ctx.Done():
		return l.callBack(ctx, p)
	}
}

// callBack makes sure that p is not sent any more.
func (l *lots) callBack(ctx context.Context, p *parking) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.sent {
		return fmt.Errorf("%w: no answer yet: %w", ErrUnconfirmed, ctx.Err())
	}
	p.sent = true // nobody will
	return fmt.Errorf("not sent yet: %w", ctx.Err())
}

// sendAll sends lots until nobody waits.
func (l *lots) sendAll() {
	for {
		lot := l.take()
		if len(lot) == 0 {
			return
		}
		l.send(lot)
	}
}

// take returns the next lot. An empty one ends the caller's turn.
func (l *lots) take() []*parking {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lot []*parking
	bytes, taken := 0, 0
	for _, p := range l.waiting {
		if len(lot) == lotMost || len(lot) > 0 && bytes+len(p.stored) > lotBytes {
			break
		}
		taken++
		if p.sent { // called back
			continue
		}
		p.sent = true
		bytes += len(p.stored)
		lot = append(lot, p)
	}
	l.waiting = l.waiting[taken:]
	if len(lot) == 0 {
		l.underWay--
	}
	return lot
}

// parkLot parks a lot by a script for each shard, in one pipeline, so that Redis
// flushes to disk once for all of it.
func (p *Park) parkLot(lot []*parking) {
	byShard := make([][]*parking, len(p.keys))
	for _, one := range lot {
		byShard[one.shard] = append(byShard[one.shard], one)
	}
	// Not under any caller's context: the client has time limits of its own.
	ctx := context.Background()
	asked := time.Now()
	answers := make([]*redis.Cmd, len(byShard))
	// Each command has its own error, or that of the whole.
	_, _ = p.config.Client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for shard, part := range byShard {
			if len(part) > 0 {
				keys, args := p.arguments(shard, part)
				answers[shard] = p.scripts.park.EvalSha(ctx, pipe, keys, args...)
			}
		}
		return nil
	})
	for shard, answer := range answers {
		if answer == nil {
			continue
		}
		if undone(answer.Err()) {
			keys, args := p.arguments(shard, byShard[shard])
			answer = p.scripts.park.Run(ctx, p.config.Client, keys, args...)
		}
		answerLot(byShard[shard], answer, p.clocks[shard], asked, time.Now())
	}
}

// undone reports whether a server has done nothing because it does not know the
// script, or has the keys no more, which a pipeline does not mend by itself.
func undone(err error) bool {
	return redis.HasErrorPrefix(err, "NOSCRIPT") || redis.HasErrorPrefix(err, "MOVED")
}

// arguments returns what lua/park.lua is called with for a lot of one shard.
func (p *Park) arguments(shard int, lot []*parking) (keys []string, args []any) {
	k := p.keys[shard]
	args = append(make([]any, 0, 4+len(p.leads)+3*len(lot)),
		wakeChannel(p.config.Topology), k.number, p.config.Window.Milliseconds(), len(p.leads))
	args = append(args, p.leads...)
	for _, one := range lot {
		_, notLaterThan, _ := p.clocks[shard].bounds(one.called) // 0 if unknown
		r := requestFor(one.when, notLaterThan, one.slot, one.record().direct(), one.alone)
		args = append(args, one.key, r[:], one.stored[stampAt:])
	}
	return []string{k.schedule, k.state, k.envelopes, k.kept}, args
}

// The answers of lua/park.lua are those of message.Parking, and this one.
const answerFull = 255

const answerBytes = 7 // for each message

func answerLot(lot []*parking, answer *redis.Cmd, clock *serverClock, asked, heard time.Time) {
	values, err := answer.Slice()
	if err != nil {
		failLot(lot, clock, classify(err))
		return
	}
	r := reply{rest: values}
	us, outcomes := r.int(), r.string()
	if r.err == nil && len(outcomes) != answerBytes*len(lot) {
		r.fail("%d bytes for %d messages", len(outcomes), len(lot))
	}
	if r.err != nil {
		failLot(lot, clock, errors.Join(ErrUnconfirmed, r.err))
		return
	}
	clock.learn(asked, heard, us)
	for _, one := range lot {
		outcome := outcomes[:answerBytes]
		outcomes = outcomes[answerBytes:]
		if outcome[0] == answerFull {
			one.answer <- ErrFull
			continue
		}
		one.ticket = message.Ticket{Parking: message.Parking(outcome[0]), Due: instantOf(unix48(outcome[1:]))}
		one.answer <- nil
	}
}

func failLot(lot []*parking, clock *serverClock, err error) {
	clock.forget()
	for _, one := range lot {
		one.answer <- err
	}
}
