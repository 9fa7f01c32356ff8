package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/format"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/server"
)

const (
	// batchMost and batchBytes bound what is sent to Redis at once: a script holds
	// everything else up while it runs. One message may be larger.
	batchMost  = 512
	batchBytes = 1 << 20
	// batchesAtOnce is how many batches may be under way, if the next one is worth it:
	// one is encoded here while another is on its way to Redis' disk.
	batchesAtOnce = 8
	batchWorth    = 192
)

// pendingPark is one message on its way into Redis. It gets exactly one answer, after which
// only the caller touches it: it may be used again, for another message.
type pendingPark struct {
	slot   format.Slot
	key    string
	called time.Time // a delay runs from here
	when   message.When
	alone  bool   // it is refused where another message has its ID
	group  string // within its entry; empty for none
	entry  string
	quota  Quota
	over   error  // why its entry has no room for it
	stored []byte // the record that Redis is to keep, without the first two instants

	ticket message.Ticket
	answer chan error // takes one
	sent   bool       // guarded by batches.mu; it can no longer be called back
}

const (
	// envelopeRoom is for what an envelope has beside a body, as a rule.
	envelopeRoom = 128
	// spareBytes bounds what is kept of a record for the next one.
	spareBytes = 4 << 10
)

// parkPool pools pending parks: without it, garbage collection dominates under load.
type parkPool struct{ pool sync.Pool }

func (p *parkPool) take() *pendingPark {
	if one, ok := p.pool.Get().(*pendingPark); ok {
		return one
	}
	return &pendingPark{answer: make(chan error, 1)}
}

// put takes back one that has had its answer. One whose caller has gone away is still on its
// way, and is never put back.
func (p *parkPool) put(one *pendingPark) {
	if cap(one.stored) > spareBytes {
		one.stored = nil
	}
	*one = pendingPark{stored: one.stored[:0], answer: one.answer}
	p.pool.Put(one)
}

func (p *pendingPark) record() Record { return Record(p.stored) }

// A batcher gathers messages that are parked at the same time, so that they share
// scripts, round trips and flushes to disk. While one batch is under way the next
// one grows: batches are as large as the load is heavy, and no message waits for others.
type batcher struct {
	send func([]*pendingPark) // parks them and gives each its answer

	mu       sync.Mutex
	waiting  []*pendingPark
	underWay int
}

// park returns once p has its answer, or ctx has ended.
func (b *batcher) park(ctx context.Context, p *pendingPark) error {
	b.mu.Lock()
	b.waiting = append(b.waiting, p)
	if b.underWay == 0 || b.underWay < batchesAtOnce && len(b.waiting) >= batchWorth {
		b.underWay++
		go b.sendAll()
	}
	b.mu.Unlock()
	select {
	case err := <-p.answer:
		return err
	case <-ctx.Done():
		return b.callBack(ctx, p)
	}
}

// callBack makes sure that p is not sent any more.
func (b *batcher) callBack(ctx context.Context, p *pendingPark) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.sent {
		return fmt.Errorf("%w: no answer yet: %w", server.ErrUnconfirmed, ctx.Err())
	}
	p.sent = true // so that take leaves it out
	return fmt.Errorf("not sent yet: %w", ctx.Err())
}

// sendAll sends batches until no message waits.
func (b *batcher) sendAll() {
	for {
		batch := b.take()
		if len(batch) == 0 {
			return
		}
		b.send(batch)
	}
}

// take returns the next batch. An empty one ends the caller's turn.
func (b *batcher) take() []*pendingPark {
	b.mu.Lock()
	defer b.mu.Unlock()
	var batch []*pendingPark
	bytes, taken := 0, 0
	for _, p := range b.waiting {
		if len(batch) == batchMost || len(batch) > 0 && bytes+len(p.stored) > batchBytes {
			break
		}
		taken++
		if p.sent { // called back
			continue
		}
		p.sent = true
		bytes += len(p.stored)
		batch = append(batch, p)
	}
	b.waiting = b.waiting[taken:]
	if len(batch) == 0 {
		b.underWay--
	}
	return batch
}

// Park stores m, as redisbridge.Park.Park says, with what begins its record.
func (s *Store) Park(ctx context.Context, m *message.Message, w message.When, begin Beginning) (message.Ticket, error) {
	called := time.Now()
	if err := s.admit(ctx); err != nil {
		return message.Ticket{}, err
	}
	key, group := begin.As, ""
	if first := format.KeyOf(m.Entry, m.ID); key == "" || key == first { // what was delivered, and is to come back, is in no group any more
		key, group = first, groupOf(m)
	}
	one := s.pool.take()
	if begin.As == "" { // what was taken before, and is to come back, is not refused
		one.entry, one.quota = m.Entry, s.config.Quotas[m.Entry]
		one.over = one.quota.admit(m.Entry, w.From(called).Sub(called), len(m.Body))
	}
	_, one.slot = format.Locate(key, 1)
	one.key, one.called, one.when, one.alone, one.group = key, called, w, begin.Alone, group
	one.stored = slices.Grow(one.stored, format.RecordMaxHead+envelopeRoom+len(m.Body))
	one.stored = format.AppendEnvelope(begin.Append(one.stored), m, format.IDOf(key))
	asked := begin.Asked
	if asked == (message.When{}) {
		asked = w
	}
	digest := format.ContentOf(m, asked, one.stored[one.record().Body():])
	copy(one.stored[format.DigestAt:], digest[:])
	copy(one.stored[format.DigestAt:format.RecordHeader], begin.Content)
	if err := s.batches.park(ctx, one); err != nil {
		return message.Ticket{}, fmt.Errorf("park message %s: %w", format.IDOf(key), err)
	}
	ticket := one.ticket
	s.pool.put(one)
	return ticket, nil
}

// RetryKey returns a key that is parked under once: several queues may have messages of
// one ID come back, foreign clients may use an ID more than once, and the next attempt
// may fail before this one is settled. The ID is for people who look into Redis.
func RetryKey(entry, id string) string {
	return retryKeys(entry, id) + rand.Text()
}

// retryKeys is what the keys of an ID's retries begin with, and perhaps those of other long IDs.
func retryKeys(entry, id string) string {
	return format.KeyOf(entry, "retry~"+id[:min(len(id), 127)]+"~")
}

// parkBatch parks a batch by a script for each shard, in one pipeline, so that Redis
// flushes to disk once for all of it.
func (s *Store) parkBatch(batch []*pendingPark) {
	// Not under any caller's context: the client has time limits of its own.
	ctx := context.Background()
	end, err := s.limit(ctx, batch)
	if err != nil {
		for _, one := range batch {
			one.answer <- err
		}
		return
	}
	defer end()
	for began := time.Now(); len(batch) > 0; {
		batch = s.parkOnce(ctx, batch, began)
	}
}

// parkOnce parks a batch, and returns those messages that are to be parked in other shards, or later: their IDs are
// moving. began is when the batch was parked first.
func (s *Store) parkOnce(ctx context.Context, batch []*pendingPark, began time.Time) (again []*pendingPark) {
	v, byShard := s.view.Load(), map[*Shard][]*pendingPark{}
	var shards []*Shard
	for _, one := range batch {
		shard, _ := v.locate(one.key)
		if byShard[shard] == nil {
			shards = append(shards, shard)
		}
		byShard[shard] = append(byShard[shard], one)
	}
	asked := time.Now()
	answers := map[*Shard]*redis.Cmd{}
	unreplicated := s.eachNode(ctx, shards, func(pipe redis.Pipeliner, shard *Shard) {
		keys, args := s.arguments(shard, byShard[shard])
		answers[shard] = s.scripts.Park.EvalSha(ctx, pipe, keys, args...)
	})
	for _, shard := range shards {
		answer, err := answers[shard], unreplicated[shard]
		if undone(answer.Err()) {
			keys, args := s.arguments(shard, byShard[shard])
			answer, err = s.run(ctx, shard.keys, s.scripts.Park, keys, args...)
		}
		if time.Since(began) < moveWithin && s.follow(ctx, v, shard, answer.Err()) {
			again = append(again, byShard[shard]...)
			continue
		}
		answerBatch(byShard[shard], answer, err, shard.clock, asked, time.Now())
	}
	return again
}

// undone reports whether a server has done nothing because it does not know the
// script, or has the keys no more, which a pipeline does not mend by itself.
func undone(err error) bool {
	return redis.HasErrorPrefix(err, "NOSCRIPT") || redis.HasErrorPrefix(err, "MOVED")
}

// arguments returns what lua/park.lua is called with for a batch of one shard.
func (s *Store) arguments(shard *Shard, batch []*pendingPark) (keys []string, args []any) {
	k := shard.keys
	args = append(make([]any, 0, 4+len(s.leads)+3*len(batch)),
		format.WakeChannel(s.config.Topology), k.Number, s.config.Window.Milliseconds(), len(s.leads))
	args = append(args, s.leads...)
	for _, one := range batch {
		_, notLaterThan, _ := shard.clock.Bounds(one.called) // 0 if unknown
		r := format.RequestFor(one.when, notLaterThan, one.slot, one.record().Direct(), one.alone, one.over != nil)
		args = append(args, one.key, append(r[:], one.group...), one.stored[format.StampAt:])
	}
	return []string{k.Schedule, k.State, k.Envelopes, k.Kept}, args
}

// The answers of lua/park.lua are those of message.Parking, and these.
const (
	answerNoRoom = 254
	answerFull   = 255
)

const answerBytes = 7 // for each message

// answerBatch gives each message its answer. unreplicated is why those that are stored are not
// confirmed, or nil.
func answerBatch(batch []*pendingPark, answer *redis.Cmd, unreplicated error, clock *server.Clock, asked, heard time.Time) {
	values, err := answer.Slice()
	if err != nil {
		failBatch(batch, clock, server.Classify(err))
		return
	}
	r := reply{rest: values}
	us, outcomes := r.int(), r.string()
	if r.err == nil && len(outcomes) != answerBytes*len(batch) {
		r.fail("%d bytes for %d messages", len(outcomes), len(batch))
	}
	if r.err != nil {
		failBatch(batch, clock, errors.Join(server.ErrUnconfirmed, r.err))
		return
	}
	clock.Learn(asked, heard, us)
	for _, one := range batch {
		outcome := outcomes[:answerBytes]
		outcomes = outcomes[answerBytes:]
		switch outcome[0] {
		case answerNoRoom:
			one.answer <- one.over
			continue
		case answerFull:
			one.answer <- server.ErrFull
			continue
		}
		one.ticket = message.Ticket{Parking: message.Parking(outcome[0]), Due: InstantOf(format.Unix48(outcome[1:]))}
		if p := one.ticket.Parking; p == message.Parked || p == message.ParkedBefore {
			one.answer <- unreplicated
		} else { // nothing was stored
			one.answer <- nil
		}
	}
}

func failBatch(batch []*pendingPark, clock *server.Clock, err error) {
	clock.Forget()
	for _, one := range batch {
		one.answer <- err
	}
}
