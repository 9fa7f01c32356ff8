package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/format"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/server"
)

// How the number of shards changes. Messages move from the shards of one generation to those of the next,
// by steps of some slots: they are taken out of an old shard (lua/take.lua), implanted into the new ones
// (lua/implant.lua), and dropped from what is between them. Each script does nothing when it is repeated, so that
// movers may die at any point, and two of them do no harm. When all old shards are closed, the layout is that of
// the next generation.
//
// Old shards keep their frontier for good: it tells a process that knows only them to read the layout anew.

// Moves reports whether messages move from a shard to those of the next generation.
func (s *Store) Moves(shard *Shard) bool {
	l := s.Layout()
	return l.Next > 0 && shard.generation == l.Generation
}

// ErrResharding means that something cannot be done while the number of shards changes.
var ErrResharding = errors.New("the number of shards is being changed, and messages move: wait until that is over")

const (
	// A step takes at most this many slots, and ends after this many messages or bytes: Redis is busy with it for some ms.
	takeSlots   = 4096
	takeRecords = 500
	takeBytes   = 1 << 20
	// closeMost is how many keys and members a step removes of what is left.
	closeMost = 2000

	movingRecord = ":" // begins a field with a record of what is between shards; see lua/take.lua
	movingOthers = "+"
)

// atRest returns ErrResharding while messages move.
func (s *Store) atRest(ctx context.Context) error {
	l, err := s.ReadLayout(ctx)
	if err == nil && l.Next > 0 {
		err = fmt.Errorf("%w: prefix %s has %d shards, and is to have %d", ErrResharding, s.config.Topology.Prefix(), l.Shards, l.Next)
	}
	return err
}

// stateOf returns a field of the state of each of some shards, or "".
func (s *Store) stateOf(ctx context.Context, shards []*Shard, field string) ([]string, error) {
	answers := make([]*redis.StringCmd, len(shards))
	_, _ = s.config.Client.Pipelined(ctx, func(pipe redis.Pipeliner) error { // each command has its own error
		for n, shard := range shards {
			answers[n] = pipe.HGet(ctx, shard.keys.State, field)
		}
		return nil
	})
	values := make([]string, len(shards))
	for n, answer := range answers {
		if err := answer.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return nil, server.ClassifyRead(err)
		}
		values[n] = answer.Val()
	}
	return values, nil
}

// BeginReshard has all messages move to another number of shards. Repeating it is harmless. It returns
// ErrResharding while there is another move.
func (s *Store) BeginReshard(ctx context.Context, shards int) error {
	l, err := s.ReadLayout(ctx)
	switch {
	case err != nil:
		return err
	case l.Version == "":
		return fmt.Errorf("%w: nothing was ever parked under prefix %s: set shards to %d before the first bridge starts", ErrInvalid, s.config.Topology.Prefix(), shards)
	case l.Next == shards, l.Next == 0 && l.Shards == shards:
		return nil
	case l.Next > 0:
		return s.atRest(ctx)
	}
	s.seeing.Lock()
	next := s.generation(l.Generation+1, shards)
	s.seeing.Unlock()
	if err := s.forgetArrivals(ctx, s.view.Load().shards); err != nil { // of the last move, whose end was interrupted
		return err
	}
	_, err = s.config.Client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, shard := range next {
			pipe.HSetNX(ctx, shard.keys.State, "from", l.Shards) // once: who is late by a whole move does no harm
		}
		return nil
	})
	if err != nil {
		return server.Classify(err)
	}
	if err := s.turnLayout(ctx, l.Generation, shards, "begin"); err != nil {
		return err
	}
	s.Tell(ctx, format.WakeLayout)
	return nil
}

// turnLayout begins or ends a move in the layout, and reads that anew.
func (s *Store) turnLayout(ctx context.Context, generation, shards int, what string) error {
	done, err := s.scripts.Reshard.Run(ctx, s.config.Client, []string{format.LayoutKey(s.config.Topology)}, generation, shards, what, LayoutVersion).Bool()
	if err != nil {
		return server.Classify(err)
	}
	l, err := s.ReadLayout(ctx)
	if err == nil && !done && what == "begin" && l.Next != shards {
		err = fmt.Errorf("%w: another one began meanwhile: prefix %s is to have %d shards", ErrResharding, s.config.Topology.Prefix(), l.Next)
	}
	return err
}

// forgetArrivals has shards of the last generation forget from where their messages have come.
func (s *Store) forgetArrivals(ctx context.Context, shards []*Shard) error {
	from, err := s.stateOf(ctx, shards, "from")
	if err != nil {
		return err
	}
	_, err = s.config.Client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for n, shard := range shards {
			old, _ := strconv.Atoi(from[n])
			if old == 0 {
				continue
			}
			fields := make([]string, old)
			for i := range fields {
				fields[i] = "arrived:" + strconv.Itoa(i)
			}
			pipe.HSet(ctx, shard.keys.State, "from", 0)
			pipe.HDel(ctx, shard.keys.State, fields...)
		}
		return nil
	})
	return server.Classify(err)
}

// Resharding says how far a move is.
type Resharding struct {
	Layout
	// Slots is how many slots of all old shards have gone, of All.
	Slots, All int64
	// Closed is how many old shards have nothing left.
	Closed int
}

// Resharding reads how far a move is. Next is 0 where there is none.
func (s *Store) Resharding(ctx context.Context) (r Resharding, err error) {
	if r.Layout, err = s.ReadLayout(ctx); err != nil || r.Next == 0 {
		return r, err
	}
	old := s.view.Load().shards
	frontiers, err := s.stateOf(ctx, old, "frontier")
	if err != nil {
		return r, err
	}
	done, err := s.stateOf(ctx, old, "done")
	if err != nil {
		return r, err
	}
	for n := range old {
		slots, _ := strconv.ParseInt(frontiers[n], 10, 64)
		r.Slots, r.All = r.Slots+slots, r.All+format.SlotsPerShard
		if done[n] != "" {
			r.Closed++
		}
	}
	return r, nil
}

// MoveStep is what a step of a move has done.
type MoveStep struct {
	Messages int
	// Blocked means that a message is in the way which a bridge has claimed.
	Blocked bool
	// Over means that the shard has nothing left to move.
	Over bool
}

// Move does a step of moving the messages of an old shard to the next generation. Who owns the shard calls it
// again and again; others do no harm by it.
func (s *Store) Move(ctx context.Context, old *Shard) (MoveStep, error) {
	v := s.view.Load()
	if v.next == nil || old.generation != v.layout.Generation {
		return MoveStep{Over: true}, nil
	}
	taken, err := s.take(ctx, old)
	switch {
	case err != nil:
		return MoveStep{}, err
	case taken.stop > taken.start:
		if err := s.implant(ctx, v, old, &taken); err != nil {
			return MoveStep{}, err
		}
		return MoveStep{Messages: len(taken.records)}, s.dropTaken(ctx, old, &taken)
	case taken.start < format.SlotsPerShard:
		return MoveStep{Blocked: true}, nil
	}
	return s.close(ctx, v, old)
}

// taken is what lua/take.lua has returned.
type taken struct {
	start, stop int64
	records     []takenRecord
	others      map[string]string // names of other messages, by the first one's key
}

type takenRecord struct {
	key, kept string // kept is a score, or empty
	record    Record
}

func (t *taken) text() string { return fmt.Sprint(t.start, " ", t.stop) }

func (s *Store) take(ctx context.Context, old *Shard) (taken, error) {
	k := old.keys
	called, unreplicated := s.run(ctx, k, s.scripts.Take, []string{k.Schedule, k.State, k.Claimed, k.Envelopes, k.Kept, k.Moving},
		append([]any{takeSlots, takeRecords, takeBytes}, s.leads...)...)
	answer, err := called.Slice()
	if err != nil {
		return taken{}, fmt.Errorf("take from shard %s: %w", old.Name(), server.Classify(err))
	}
	r := reply{rest: answer}
	t := taken{start: r.int(), stop: r.int(), others: map[string]string{}}
	fields, _ := r.next().([]any)
	r.rest = fields
	for len(r.rest) > 0 && r.err == nil {
		field, value := r.string(), r.string()
		if key, is := strings.CutPrefix(field, movingRecord); is {
			kept, record, _ := strings.Cut(value, " ")
			t.records = append(t.records, takenRecord{key, kept, Record(record)})
		} else if key, is := strings.CutPrefix(field, movingOthers); is {
			t.others[key] = value
		}
	}
	return t, errors.Join(r.err, unreplicated)
}

// implant puts what was taken into the new shards: each hears of the range, even if nothing of it is its own.
func (s *Store) implant(ctx context.Context, v *view, old *Shard, t *taken) error {
	records, others := map[int][]takenRecord{}, map[int][]any{}
	for _, one := range t.records {
		n, _ := format.Locate(format.FirstOf(one.key), len(v.next))
		records[n] = append(records[n], one)
	}
	for _, first := range slices.Sorted(maps.Keys(t.others)) {
		n, _ := format.Locate(first, len(v.next))
		others[n] = append(others[n], first, t.others[first])
	}
	arguments := func(shard *Shard) ([]string, []any) {
		k := shard.keys
		args := append([]any{old.number, len(v.shards), t.start, t.stop, format.WakeChannel(s.config.Topology), k.Number, len(s.leads)}, s.leads...)
		args = append(args, len(records[shard.number]))
		for _, one := range records[shard.number] {
			args = append(args, one.key, one.kept, string(one.record), groupOfStored(one.key, one.record))
		}
		return []string{k.Schedule, k.State, k.Envelopes, k.Kept}, append(args, others[shard.number]...)
	}
	answers := map[*Shard]*redis.Cmd{}
	unreplicated := s.eachNode(ctx, v.next, func(pipe redis.Pipeliner, shard *Shard) {
		keys, args := arguments(shard)
		answers[shard] = s.scripts.Implant.EvalSha(ctx, pipe, keys, args...)
	})
	for _, shard := range v.next {
		answer, err := answers[shard], unreplicated[shard]
		if undone(answer.Err()) {
			keys, args := arguments(shard)
			answer, err = s.run(ctx, shard.keys, s.scripts.Implant, keys, args...)
		}
		if failed := errors.Join(server.Classify(answer.Err()), err); failed != nil {
			return fmt.Errorf("move from shard %s to %s: %w", old.Name(), shard.Name(), failed)
		}
	}
	return nil
}

func (s *Store) dropTaken(ctx context.Context, old *Shard, t *taken) error {
	err := s.scripts.Drop.Run(ctx, s.config.Client, []string{old.keys.Moving}, t.text()).Err()
	return server.Classify(err)
}

// close removes what is left of an old shard of which all slots have gone, and ends the move when it is the last one.
func (s *Store) close(ctx context.Context, v *view, old *Shard) (MoveStep, error) {
	done, err := s.stateOf(ctx, v.shards, "done")
	if err != nil {
		return MoveStep{}, err
	}
	if done[old.number] == "" {
		k := old.keys
		closed, err := s.scripts.Shut.Run(ctx, s.config.Client, []string{k.Schedule, k.State, k.Claimed, k.Envelopes, k.Kept, k.Groups}, closeMost).Bool()
		if err != nil || !closed {
			return MoveStep{}, server.Classify(err)
		}
		if err := s.moveStray(ctx, old); err != nil {
			return MoveStep{}, err
		}
		return MoveStep{}, server.Classify(s.config.Client.HSet(ctx, k.State, "done", 1).Err())
	}
	if slices.Contains(done, "") {
		return MoveStep{Over: true}, nil
	}
	if err := s.turnLayout(ctx, v.layout.Generation, len(v.next), "end"); err != nil {
		return MoveStep{}, err
	}
	if err := s.forgetArrivals(ctx, v.next); err != nil {
		return MoveStep{}, err
	}
	s.Tell(ctx, format.WakeLayout)
	return MoveStep{Over: true}, nil
}

// moveStray moves records that processes of an earlier release have left in an old shard after its slots had gone.
func (s *Store) moveStray(ctx context.Context, old *Shard) error {
	for first := 0; first < format.SlotsPerShard; first += takeSlots {
		answers := make([]*redis.MapStringStringCmd, takeSlots)
		_, err := s.config.Client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for n := range answers {
				answers[n] = pipe.HGetAll(ctx, old.keys.Slot(format.SlotNumber(first+n)))
			}
			return nil
		})
		if err != nil {
			return server.Classify(err)
		}
		for n, answer := range answers {
			for key, record := range answer.Val() {
				if err := s.moveStrayRecord(ctx, key, Record(record)); err != nil {
					return err
				}
				if err := s.config.Client.HDel(ctx, old.keys.Slot(format.SlotNumber(first+n)), key).Err(); err != nil {
					return server.Classify(err)
				}
			}
		}
	}
	return server.Classify(s.config.Client.Del(ctx, old.keys.Envelopes+":others").Err())
}

func (s *Store) moveStrayRecord(ctx context.Context, key string, record Record) error {
	one := Stored{Key: key, Record: record}
	if !record.Whole() {
		return nil
	}
	var err error
	switch record.State() {
	case Waiting, Cancelled:
		_, err = s.implantOne(ctx, &one)
	case Moved:
		_, err = s.Reschedule(ctx, one.Entry(), one.ID(), message.At(InstantOf(record.Due())), false)
	case Delivered: // its consumer has it
	}
	if errors.Is(err, ErrInvalid) { // it cannot be read, and no publisher was told that it is stored
		return nil
	}
	return err
}
