package redisbridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/message"
)

const (
	// plainWorth is from how many messages on plain commands take less of Redis'
	// time than a script: there is one transaction around them, and one command for
	// each bucket of the schedule.
	plainWorth = 16
	// plainWidth is how far apart, in ms, the bounds of Redis' clock may be: a
	// message is late by that at worst.
	plainWidth = 20
	// plainAhead is how long before it is due a message must be parked, in ms, so
	// that there is time to take it back.
	plainAhead = 900
	// plainPatience is how much later than it was sent, in ms, a lot may be carried
	// out before Redis' clock is suspected to have been set forward. As long as
	// most_wait of lua/park.lua.
	plainPatience = 500
)

// A placed message is one with the time it is due, and its place in the schedule.
type placed struct {
	*parking
	due, at int64  // Unix ms
	part    string // of the schedule
	isNew   *redis.BoolCmd
}

// parkPlainly parks messages of one shard by plain commands, in one transaction,
// which takes Redis two thirds of the time of the script. It returns those that it
// has left to the script, and stored nothing of: all, where Redis refuses or its
// clock is not known well enough; those that are due soon; and those whose ID was
// parked before.
//
// An envelope is stored where there is none under the ID; the entry in the schedule
// is made in any case, and taken back where the ID was parked before. It does no harm
// if that is not to be: a claim finds the envelope of a message that is due at another
// time, and sees to it that it has an entry there, or finds none.
func (p *Park) parkPlainly(ctx context.Context, shard int, lot []*parking) (rest []*parking) {
	clock, asked := p.clocks[shard], time.Now()
	least, most, known := clock.bounds(asked)
	if !known || most-least > plainWidth {
		return lot
	}
	plain := make([]placed, 0, len(lot))
	for _, one := range lot {
		due, ok := one.dueBy(clock)
		if !ok || due <= most+plainAhead {
			rest = append(rest, one)
			continue
		}
		m := placed{parking: one, due: due}
		m.at, m.part = p.place(due, most, one.record().direct())
		put48(one.stored, due)
		put48(one.stored[6:], most)
		plain = append(plain, m)
	}
	if len(plain) == 0 {
		return lot
	}
	us, err := p.storePlainly(ctx, shard, plain)
	if errors.Is(err, errUndone) {
		return lot
	}
	if err != nil {
		clock.forget()
		answerAll(plain, err)
		return rest
	}
	back := plain[:0:0]
	if now := us / 1000; now < least || now > most+plainPatience {
		clock.forget() // it is not the clock that it was thought to be
		back, plain = plain, nil
	} else {
		clock.learn(asked, time.Now(), us)
	}
	for _, m := range plain {
		if !m.isNew.Val() {
			back = append(back, m)
			continue
		}
		m.parked()
	}
	if len(back) == 0 {
		return rest
	}
	tooLate, err := p.takeBack(ctx, shard, back)
	if err != nil {
		answerAll(back, fmt.Errorf("%w: %w", ErrUnconfirmed, err))
		return rest
	}
	for i, m := range back {
		if tooLate[i] {
			m.parked()
		} else {
			rest = append(rest, m.parking)
		}
	}
	return rest
}

// parked gives m its answer.
func (m *placed) parked() {
	m.ticket = message.Ticket{Parking: message.Parked, Due: time.UnixMilli(m.due)}
	m.answer <- nil
}

func answerAll(lot []placed, err error) {
	for _, m := range lot {
		m.answer <- err
	}
}

// dueBy returns when the message is due, and false where clock does not know.
func (one *parking) dueBy(clock *serverClock) (due int64, ok bool) {
	if instant, absolute := one.when.Instant(); absolute {
		return instant.UnixMilli(), true
	}
	delay, _ := one.when.Relative()
	_, most, known := clock.bounds(one.called)
	return most + delay.Milliseconds(), known
}

// errUndone means that nothing was stored.
var errUndone = errors.New("the transaction was not carried out")

// storePlainly stores messages, and returns Redis' clock in Unix microseconds.
func (p *Park) storePlainly(ctx context.Context, shard int, plain []placed) (int64, error) {
	k := p.keys[shard]
	type bucket struct {
		part   string
		number int64
	}
	entries, parts, counts := map[bucket][]redis.Z{}, map[string][]redis.Z{}, map[string]int64{}
	first := plain[0].at
	for _, m := range plain {
		first = min(first, m.at)
	}
	wakeKeys, wakeArgs := []string{k.state, k.envelopes}, []any{wakeChannel(p.config.Topology), k.number, first}
	var woken *redis.Cmd
	added := make(map[string][]*redis.IntCmd, len(parts))
	_, err := p.config.Client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, m := range plain {
			in := bucket{m.part, m.at / bucketMS}
			entries[in] = append(entries[in], redis.Z{Score: float64(m.at % bucketMS), Member: m.id})
			counts[m.part]++
		}
		for in := range entries {
			parts[in.part] = append(parts[in.part], redis.Z{Score: float64(in.number), Member: in.number})
		}
		for part, buckets := range parts {
			pipe.SAdd(ctx, k.schedule, part)
			pipe.ZAdd(ctx, k.part(part), buckets...)
		}
		for in, ids := range entries {
			added[in.part] = append(added[in.part], pipe.ZAddNX(ctx, k.bucket(in.part, in.number), ids...))
		}
		for part, n := range counts {
			pipe.HIncrBy(ctx, k.counts(), part, n)
		}
		// The order matters: see lua/lib.lua.
		for i, m := range plain {
			plain[i].isNew = pipe.HSetNX(ctx, k.slot(m.slot), m.id, m.stored)
		}
		woken = p.scripts.wake.EvalSha(ctx, pipe, wakeKeys, wakeArgs...)
		return nil
	})
	var answer redis.Error
	switch stored := func(m placed) bool { return m.isNew.Err() == nil }; {
	case err == nil:
	case !errors.As(err, &answer):
		return 0, classify(err)
	case !slices.ContainsFunc(plain, stored):
		return 0, errUndone
	case redis.HasErrorPrefix(err, "NOSCRIPT"): // the first error, of the last command
		woken = p.scripts.wake.Eval(ctx, p.config.Client, wakeKeys, wakeArgs...)
	default:
		return 0, classify(err)
	}
	us, err := woken.Int64()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrUnconfirmed, err)
	}
	for part, buckets := range added {
		for _, one := range buckets {
			counts[part] -= one.Val()
		}
		if counts[part] > 0 { // entries that were there already; if this fails, the count stays wrong
			_ = p.config.Client.HIncrBy(ctx, k.counts(), part, -counts[part]).Err()
		}
	}
	return us, nil
}

// takeBack removes what storePlainly has stored, unless it is needed. It returns for which
// messages it is too late: to park these again would have them delivered twice.
func (p *Park) takeBack(ctx context.Context, shard int, back []placed) ([]bool, error) {
	k := p.keys[shard]
	args := append(make([]any, 0, 1+len(p.leads)+6*len(back)), len(p.leads))
	args = append(args, p.leads...)
	for _, m := range back {
		args = append(args, m.id, m.slot[:], m.stored[:stampAt], m.at, m.part, m.isNew.Val())
	}
	tooLate, err := p.scripts.takeBack.Run(ctx, p.config.Client, []string{k.schedule, k.claimed, k.envelopes, k.kept}, args...).BoolSlice()
	if err == nil && len(tooLate) != len(back) {
		err = fmt.Errorf("%d answers for %d messages", len(tooLate), len(back))
	}
	return tooLate, err
}

// lane is what place has to know of one.
type lane struct {
	ttl  int64  // ms
	part string // of the schedule
}

// place returns where a message belongs in the schedule, as place of lua/lib.lua does.
func (p *Park) place(due, parkedAt int64, direct bool) (at int64, part string) {
	for _, lane := range p.lanes {
		if !direct && lane.ttl <= due-parkedAt {
			return due - lane.ttl, lane.part
		}
	}
	return max(due-ahead.Milliseconds(), parkedAt), "0"
}
