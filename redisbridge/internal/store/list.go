package store

import (
	"container/heap"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/delaybridge/delaybridge/redisbridge/internal/store/format"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/server"
)

// A ListFilter says what [Store.List] is to list. It may list more than that.
type ListFilter struct {
	From, Until time.Time // of due times; zero is no bound
	IDPrefix    string
	In          Where // Anywhere, or one place
}

// List calls yield for the messages that wait in Redis or in a lane, in the order in which
// they are due, until it returns false. redisbridge.Park.List says the rest.
func (s *Store) List(ctx context.Context, f ListFilter, yield func(*Found) bool) error {
	if err := s.Check(ctx); err != nil {
		return err
	}
	shards, err := s.Current(ctx)
	if err != nil {
		return err
	}
	var heads []*shardHead
	for _, shard := range shards {
		head := &shardHead{list: newShardList(s, shard, f)}
		there, err := head.next(ctx)
		if err != nil {
			return err
		}
		if there {
			heads = append(heads, head)
		}
	}
	for last := (*item)(nil); len(heads) > 0; {
		first := 0
		for i, head := range heads {
			if isBefore(head.item, heads[first].item) {
				first = i
			}
		}
		one := heads[first].item
		if last == nil || last.key != one.key || last.Due() != one.Due() { // it may have moved to another shard
			if !yield(&one.Found) {
				return nil
			}
		}
		last = &one
		there, err := heads[first].next(ctx)
		if err != nil {
			return err
		}
		if !there {
			heads = slices.Delete(heads, first, first+1)
		}
	}
	return nil
}

// shardHead is the next item of a shard's list.
type shardHead struct {
	list *shardList
	item item
}

// next moves on to the next item, and returns false at the end.
func (h *shardHead) next(ctx context.Context) (there bool, err error) {
	h.item, there, err = h.list.next(ctx)
	return there, err
}

// isBefore orders items by due time, and then by ID.
func isBefore(a, b item) bool {
	return a.Due() < b.Due() || a.Due() == b.Due() && a.key < b.key
}

const (
	// Of each page: the most IDs that a script looks at, and the most bytes of records,
	// so that no other client waits for long; one record may be larger.
	pageIDs   = 128
	pageBytes = 1 << 20

	// moveMargin is how long, in ms, the caller may pause between two items.
	moveMargin = 60_000

	never = math.MaxInt64
)

// What a source is, beside a part of the schedule.
const (
	sourceClaimed = "claimed"
	sourceKept    = "kept"
)

// A source is an ordered set in Redis of which a page is read at a time.
type source struct {
	name   string // sourceClaimed, sourceKept, or that of a part of the schedule
	lead   int64  // of a part: its messages are due so much after their promotion, ms
	bucket int64  // this, score and id are the position
	score  string
	id     string
	bound  int64 // what comes from here yet is not due before, Unix ms
	late   int64 // of what is kept: scores are so much after the due time, ms
}

// An item is a message on its way into the list.
type item struct {
	Found
	moveAt int64 // it may be met again, in another source, from then on
}

// A shardList lists what waits in one shard, by due time. It merges sources none of
// which is in that order by itself, and out of which messages move meanwhile: from a
// part of the schedule to what is claimed, and on to what is kept. So of each stretch of
// time it reads the parts first, then what is claimed, and then what is kept: a message
// may be met twice, but is not overlooked.
type shardList struct {
	store    *Store
	shard    *Shard
	filter   ListFilter
	from, to int64 // of due times, Unix ms
	now      int64 // Redis' clock, as last read

	begun     bool
	parts     []*source
	kept      []*source
	longest   int64 // lead of all lanes, ms
	claimedTo int64 // what is claimed, and due by then, has been read

	found    items
	position int64               // the due time of the item returned last
	seen     map[string]struct{} // items of that time that may be met again
}

func newShardList(s *Store, shard *Shard, f ListFilter) *shardList {
	l := &shardList{store: s, shard: shard, filter: f, to: never, position: math.MinInt64, seen: map[string]struct{}{}}
	if !f.From.IsZero() {
		l.from = max(0, f.From.UnixMilli())
	}
	if !f.Until.IsZero() {
		l.to = f.Until.Add(time.Millisecond - 1).UnixMilli()
	}
	return l
}

// next returns the next item, and false at the end.
func (l *shardList) next(ctx context.Context) (item, bool, error) {
	if !l.begun {
		if err := l.begin(ctx); err != nil {
			return item{}, false, err
		}
		l.begun = true
	}
	for {
		part, claimed, kept := furthest(l.parts), l.claimedBound(), furthest(l.kept)
		bound := min(part.bound, claimed, kept.bound)
		if len(l.found) > 0 && l.found[0].Due() <= bound {
			if l.found[0].Due() >= l.to {
				return item{}, false, nil
			}
			if one := heap.Pop(&l.found).(item); l.isNew(one) {
				return one, true, nil
			}
			continue
		}
		if bound >= l.to {
			return item{}, false, nil
		}
		var err error
		switch bound {
		case part.bound:
			err = l.read(ctx, part, never)
		case claimed:
			err = l.readClaimed(ctx, part.bound)
		default:
			err = l.read(ctx, kept, min(part.bound, claimed))
		}
		if err != nil {
			return item{}, false, fmt.Errorf("shard %s: %w", l.shard.Name(), err)
		}
	}
}

// furthest returns the source that is the furthest behind.
func furthest(sources []*source) *source {
	found := &source{bound: never}
	for _, s := range sources {
		if s.bound < found.bound {
			found = s
		}
	}
	return found
}

func (l *shardList) begin(ctx context.Context) error {
	k := l.shard.keys
	us, err := l.store.scripts.Clock.RunRO(ctx, l.store.config.Client, []string{k.State}).Int64()
	if err != nil {
		return server.ClassifyRead(err)
	}
	names, err := l.store.config.Client.SMembers(ctx, k.Schedule).Result()
	if err != nil {
		return server.ClassifyRead(err)
	}
	l.now = us / 1000
	for _, lead := range l.store.config.Topology.Leads() {
		l.longest = max(l.longest, lead.Milliseconds())
	}
	for _, name := range names {
		lead, err := strconv.ParseInt(name, 10, 64)
		if err != nil {
			return fmt.Errorf("its schedule has a part %q", name)
		}
		l.parts = append(l.parts, &source{name: name, lead: lead})
		l.longest = max(l.longest, lead)
	}
	if !l.wants(Scheduled) {
		l.parts = nil
	}
	for _, s := range l.parts {
		lead := s.lead
		if lead == 0 { // what could not be promoted in time may be due so much later
			lead = l.longest
		}
		at := max(0, l.from-lead)
		s.bucket, s.score, s.bound = at/format.BucketMS, exactly(at%format.BucketMS), l.from
	}
	l.claimedTo = l.from
	if !l.wants(Kept) {
		return nil
	}
	// What is kept is scored by its due time, if it is kept for no other reason.
	for _, late := range []int64{0, l.store.config.Tombstones.Milliseconds()} {
		start := max(l.from, l.now)
		l.kept = append(l.kept, &source{name: sourceKept, late: late, score: exactly(start + late), bound: start})
	}
	return nil
}

// keptBound returns before when no message is due that comes after a score in what is
// kept. Where an ID is remembered for a window, a score may be the end of that, and says
// nothing of the due time.
func (l *shardList) keptBound(s *source, score float64) int64 {
	if score <= float64(l.now+l.store.config.Window.Milliseconds()) {
		return s.bound
	}
	return max(s.bound, int64(score)-s.late)
}

// claimedBound returns before when nothing is due that is claimed and has not been read.
// Nothing is claimed before the instant of its promotion.
func (l *shardList) claimedBound() int64 {
	if !l.wants(InFlight) || l.claimedTo > l.now+l.longest {
		return never
	}
	return l.claimedTo
}

// readClaimed reads what is claimed, of messages due up to an instant.
func (l *shardList) readClaimed(ctx context.Context, until int64) error {
	for claimed := (&source{name: sourceClaimed, score: "-inf"}); claimed.bound < never; {
		if err := l.read(ctx, claimed, until); err != nil {
			return err
		}
	}
	l.claimedTo = until
	return nil
}

func (l *shardList) wants(w Where) bool { return l.filter.In == Anywhere || l.filter.In == w }

// read reads a page of a source, up to messages that are due at an instant.
func (l *shardList) read(ctx context.Context, s *source, until int64) error {
	k := l.shard.keys
	stop := math.Inf(1)
	if s.name == sourceKept && until < never {
		stop = float64(max(until+s.late, l.now+l.store.config.Window.Milliseconds()+1))
	}
	answer, err := l.store.scripts.List.RunRO(ctx, l.store.config.Client, []string{k.Schedule, k.Claimed, k.Kept, k.Envelopes},
		append([]any{s.name, pageIDs, pageBytes, s.bucket, s.score, s.id, formatScore(stop), l.filter.IDPrefix, format.RecordMaxHead + format.PeekBytes}, l.store.leads...)...).Slice()
	if err != nil {
		return server.ClassifyRead(err)
	}
	r := reply{rest: answer}
	now, more := r.int(), r.int() == 1
	s.bucket, s.score, s.id = r.int(), r.string(), r.string()
	l.now = max(l.now, now)
	for len(r.rest) > 0 && r.err == nil {
		l.take(s, until, r.string(), r.int(), r.int(), Record(r.string()))
	}
	if r.err != nil {
		return r.err
	}
	if more {
		return l.advance(s)
	}
	s.bound = never
	if s.name == sourceKept { // what comes up to there from now on has been met in a part
		s.score, s.id, s.bound = formatScore(stop), "", until
	}
	return nil
}

// advance sets the bound of a source that has more.
func (l *shardList) advance(s *source) error {
	score, err := strconv.ParseFloat(s.score, 64)
	switch {
	case err != nil:
		return fmt.Errorf("a score of %q: %w", s.score, err)
	case s.name == sourceKept:
		s.bound = l.keptBound(s, score)
	case s.name != sourceClaimed:
		s.bound = max(s.bound, s.bucket*format.BucketMS+int64(max(score, 0))+s.lead)
	}
	return nil
}

// take adds a message to what was found.
func (l *shardList) take(s *source, until int64, key string, at, bytes int64, stored Record) {
	if !stored.Whole() {
		return
	}
	one := item{Found: Found{Record: stored, ID: format.IDOf(key), Shard: l.shard.number, Bytes: int(bytes), PromoteAt: at, key: key}}
	switch s.name {
	case sourceClaimed:
		if due := stored.Due(); due < max(l.claimedTo, l.position) || due > until {
			return // it has been met, or will be
		}
		one.In = InFlight
	case sourceKept:
		if (stored.Version() > 0) != (s.late > 0) {
			return // it is the other source's
		}
		one.In = Kept
	default:
		if l.isStale(s, at, stored) {
			return
		}
		if s.lead > 0 { // otherwise there may be a stale entry, too
			one.moveAt = at
		}
		one.In = Scheduled
	}
	heap.Push(&l.found, one)
}

// isStale reports whether the message has its own entry elsewhere in the schedule. A
// crash of Redis in the middle of a script may leave such an entry (lua/lib.lua), or give
// another score to the right one, in whose bucket it is.
func (l *shardList) isStale(s *source, at int64, stored Record) bool {
	return s.lead > 0 && (stored.Due()-s.lead)/format.BucketMS != at/format.BucketMS
}

// isNew reports whether an item was not met before. All of those that are due at one
// time come one after another; which of them will stay where they are need not be kept
// in mind, since there may be very many.
func (l *shardList) isNew(one item) bool {
	if one.Due() != l.position {
		clear(l.seen)
		l.position = one.Due()
	}
	if _, before := l.seen[one.key]; before {
		return false
	}
	if one.moveAt <= l.now+moveMargin {
		l.seen[one.key] = struct{}{}
	}
	return true
}

// exactly writes an instant as a score, as Redis does.
func exactly(ms int64) string { return formatScore(float64(ms)) }

func formatScore(score float64) string {
	if math.IsInf(score, 1) {
		return "inf"
	}
	return strconv.FormatFloat(score, 'f', -1, 64)
}

// items is a heap.
type items []item

func (h items) Len() int           { return len(h) }
func (h items) Less(i, j int) bool { return isBefore(h[i], h[j]) }
func (h items) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push and Pop are for container/heap.
func (h *items) Push(x any) { *h = append(*h, x.(item)) }

// Pop removes the last item.
func (h *items) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = item{}
	*h = (*h)[:len(*h)-1]
	return last
}
