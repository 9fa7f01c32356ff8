package redisbridge_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
)

var errKilled = errors.New("the process was killed")

// dying is a client of a process that is killed before or after some of its commands.
type dying struct {
	mu     sync.Mutex
	random *rand.Rand
}

func (d *dying) DialHook(next redis.DialHook) redis.DialHook { return next }

func (d *dying) fate() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.random.IntN(6)
}

func (d *dying) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		switch d.fate() {
		case 0:
			cmd.SetErr(errKilled)
			return errKilled
		case 1:
			_ = next(ctx, cmd)
			cmd.SetErr(errKilled)
			return errKilled
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook also ends a pipeline in the middle.
func (d *dying) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		switch d.fate() {
		case 0:
			if half := cmds[:len(cmds)/2]; len(half) > 0 {
				_ = next(ctx, half)
			}
			for _, cmd := range cmds[len(cmds)/2:] {
				cmd.SetErr(errKilled)
			}
			return errKilled
		case 1:
			_ = next(ctx, cmds)
			for _, cmd := range cmds {
				cmd.SetErr(errKilled)
			}
			return errKilled
		}
		return next(ctx, cmds)
	}
}

// mover is a process of its own, which may be one that dies again and again.
func (b *bench) mover(t *testing.T, dies bool) *redisbridge.Park {
	t.Helper()
	client, err := redisbridge.NewClient(b.RedisURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if dies {
		client.AddHook(&dying{random: rand.New(rand.NewPCG(1, 2))})
	}
	park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: client, Topology: b.topology})
	if err != nil {
		t.Fatal(err)
	}
	return park
}

// reshard moves all to another number of shards, by a process that dies again and again and by another one.
func (b *bench) reshard(t *testing.T, shards int) {
	t.Helper()
	if err := redisbridge.BeginReshard(t.Context(), b.park, shards); err != nil {
		t.Fatal(err)
	}
	b.move(t)
	if r, err := b.park.Resharding(t.Context()); err != nil || r.Shards != shards || r.Next != 0 {
		t.Fatalf("the number of shards is %+v (%v), want %d", r, err, shards)
	}
}

func (b *bench) move(t *testing.T) {
	t.Helper()
	dies, lives := b.mover(t, true), b.mover(t, false)
	var wait sync.WaitGroup
	defer wait.Wait()
	for _, mover := range []*redisbridge.Park{dies, lives} {
		wait.Go(func() {
			for over := false; !over; {
				var err error
				if over, err = redisbridge.MoveOnce(t.Context(), mover); err != nil && (mover == lives || !errors.Is(err, errKilled)) {
					t.Errorf("move: %v", err)
					return
				}
			}
		})
	}
}

// known is what is known of all messages with some IDs, in words, but for where they are.
func (b *bench) known(t *testing.T, ids ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, id := range ids {
		found, err := b.park.GetAll(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for i := range found {
			found[i].Shard = 0
		}
		slices.SortFunc(found, func(a, b redisbridge.MessageState) int {
			return strings.Compare(string(a.Message.Body), string(b.Message.Body))
		})
		all[id] = fmt.Sprintf("%+v", found)
	}
	return all
}

// Every kind of record is the same after the number of shards has changed, up and down, by processes that
// die between any two scripts.
func TestReshardMovesEveryKindOfRecord(t *testing.T) {
	t.Parallel()
	c := short()
	c.Tiers = append(c.Tiers, time.Minute)
	c.Lead, c.Shards = time.Minute, 2
	b := newBench(t, withEntries(c, amqp.ExchangeTopic))
	far := message.After(time.Hour)
	var ids []string
	add := func(id string) string { ids = append(ids, id); return id }
	for i := range 40 {
		b.parkOne(t, add(fmt.Sprint("waits for a lane ", i)), far)
	}
	b.parkThis(t, &message.Message{ID: add("large"), RoutingKey: "k", Body: make([]byte, 2<<20)}, far)
	b.parkOne(t, add("in no lane"), message.After(400*time.Second))
	b.parkIn(t, "group", "", add("of a group"), far)
	for _, body := range []string{"first", "second", "third"} {
		b.publishEntry(t, amqp.Publishing{MessageId: "same ID", Body: []byte(body), Headers: amqp.Table{"x-delay": int64(3_600_000), groupHeader: "group"}})
	}
	add("same ID")
	b.parkOne(t, add("cancelled"), far)
	mustChange(t)(b.park.Cancel(t.Context(), "cancelled"))
	mustChange(t)(b.park.Cancel(t.Context(), add("cancelled in a tier")))
	mustChange(t)(b.park.Reschedule(t.Context(), add("moved in a tier"), far))
	b.parkOne(t, add("rescheduled"), far)
	mustChange(t)(b.park.Reschedule(t.Context(), "rescheduled", message.After(2*time.Hour)))
	stop := b.run(t, nil)
	until(t, "the inbox is taken in", func() bool {
		all, err := b.park.GetAll(t.Context(), "same ID")
		return err == nil && len(all) == 3
	})
	b.parkOne(t, add("in its lane"), message.After(61*time.Second))
	b.lookUntil(t, "in its lane", redisbridge.StateInLane)
	b.parkOne(t, add("delivered"), message.After(600*time.Millisecond))
	m := b.arrivals.awaitID(t, "delivered").Message
	if a, err := b.park.Arrive(t.Context(), &m); err != nil || a.Because() != isWanted {
		t.Fatalf("arrive: %+v, %v", a, err)
	}
	if err := b.park.Handled(t.Context(), &m, message.Handling{Queue: "q", At: time.Now(), Outcome: "delayed"}); err != nil {
		t.Fatal(err)
	}
	m.Journey.Queue = "q"
	if err := b.park.Delay(t.Context(), &m, time.Hour); err != nil { // a retry
		t.Fatal(err)
	}
	stop()
	b.parkThis(t, ofEntry(amqp.ExchangeTopic, "of an entry", "body"), far)

	before, listed, usage := b.known(t, ids...), b.listed(t), b.usages(t)
	for _, shards := range []int{5, 1} {
		b.reshard(t, shards)
		after := b.known(t, ids...)
		for id := range maps.Keys(before) {
			if after[id] != before[id] {
				t.Errorf("%d shards, %s: got\n%s\nwant\n%s", shards, id, cut(after[id]), cut(before[id]))
			}
		}
		if got := b.listed(t); !slices.Equal(got, listed) {
			t.Errorf("%d shards: listed are\n%v\nwant\n%v", shards, got, listed)
		}
		if got := b.usages(t); !maps.Equal(got, usage) {
			t.Errorf("%d shards: usage is %v, want %v", shards, got, usage)
		}
		b.wantGroup(t, "group", "of a group same ID")
	}
	// Traffic goes on from a process that knows only the first shards.
	b.run(t, nil)
	if change, err := b.mover(t, false).Cancel(t.Context(), "waits for a lane 0"); err != nil || change.Outcome != redisbridge.OutcomeDone {
		t.Errorf("cancel: %+v, %v", change, err)
	}
	b.parkOne(t, "after", message.After(700*time.Millisecond))
	b.arrivals.awaitID(t, "after")
	if erased, err := b.park.Erase(t.Context(), "delivered"); err != nil || erased.Places[0].Removed != 2 { // and the retry
		t.Errorf("erase: %+v, %v", erased, err)
	}
}

func cut(text string) string { return text[:min(len(text), 1000)] }

func mustChange(t *testing.T) func(redisbridge.Change, error) {
	t.Helper()
	return func(_ redisbridge.Change, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (b *bench) listed(t *testing.T) (ids []string) {
	t.Helper()
	for _, one := range b.list(t, redisbridge.Filter{}) {
		ids = append(ids, fmt.Sprint(one.ID, " ", one.State, " ", one.Due.UnixMilli()))
	}
	slices.Sort(ids)
	return ids
}

func (b *bench) usages(t *testing.T) map[string]redisbridge.Usage {
	t.Helper()
	s, err := b.park.Stats(t.Context(), redisbridge.StatsOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s.Entries
}

// resharder is a process that parks, changes and looks up messages of its own, and knows what must become of each.
type resharder struct {
	park   *redisbridge.Park
	name   string
	random *rand.Rand
	states map[string]redisbridge.State
	due    map[string]time.Time
	faults []string
}

func (r *resharder) fault(format string, args ...any) {
	r.faults = append(r.faults, r.name+": "+fmt.Sprintf(format, args...))
}

// act does one thing to one of its IDs.
func (r *resharder) act(ctx context.Context) {
	id := fmt.Sprint(r.name, " ", r.random.IntN(300))
	was, known := r.states[id]
	when := message.At(time.Now().Add(time.Hour + time.Duration(r.random.IntN(1000))*time.Second).Truncate(time.Millisecond))
	instant, _ := when.Instant()
	switch r.random.IntN(6) {
	case 0, 1, 2:
		if known && was == redisbridge.StateParked {
			when = message.At(r.due[id])
		}
		ticket, err := r.park.Park(ctx, &message.Message{ID: id, RoutingKey: "k", Body: []byte(id), Headers: amqp.Table{groupHeader: r.name}}, when)
		want := message.Parked
		switch {
		case known && was == redisbridge.StateParked:
			want = message.ParkedBefore
		case known:
			want = message.CancelledBefore
		default:
			r.states[id], r.due[id] = redisbridge.StateParked, instant
		}
		if err == nil && ticket.Parking == message.Conflict && want == message.ParkedBefore {
			return // it was rescheduled: what is asked for is another delay
		}
		if err != nil || ticket.Parking != want {
			r.fault("park %s: %v, %v; want %v", id, ticket.Parking, err, want)
		}
	case 3:
		change, err := r.park.Cancel(ctx, id)
		want := redisbridge.OutcomeRecorded
		if was == redisbridge.StateParked {
			want = redisbridge.OutcomeDone
		} else if known {
			want = change.Outcome // recorded, or cancelled before
		}
		if err != nil || change.Outcome != want {
			r.fault("cancel %s: %v, %v; want %v", id, change.Outcome, err, want)
		}
		r.states[id] = redisbridge.StateCancelled
	case 4:
		if was != redisbridge.StateParked {
			return
		}
		if change, err := r.park.Reschedule(ctx, id, when); err != nil || change.Outcome != redisbridge.OutcomeDone {
			r.fault("reschedule %s: %v, %v", id, change.Outcome, err)
		}
		r.due[id] = instant
	case 5:
		r.look(ctx, id)
	}
}

func (r *resharder) look(ctx context.Context, id string) {
	is, there, err := lookUp(r.park.Get(ctx, id))
	want, known := r.states[id]
	switch {
	case err != nil:
		r.fault("get %s: %v", id, err)
	case there != known, there && is.State != want, there && want == redisbridge.StateParked && !is.Due.Equal(r.due[id]):
		r.fault("get %s: %v, %s, due %v; want %v, %s, %v", id, there, is.State, is.Due, known, want, r.due[id])
	}
}

// Processes that know only the shards of the beginning go on while the number of shards changes twice, and each ID has
// one truth.
func TestReshardWhileTrafficGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.parkOne(t, "makes the layout", message.After(time.Hour))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all []*resharder
	var wait sync.WaitGroup
	for n := range 6 {
		r := &resharder{
			park: b.mover(t, false), name: fmt.Sprint("worker-", n), random: rand.New(rand.NewPCG(uint64(n), 7)),
			states: map[string]redisbridge.State{}, due: map[string]time.Time{},
		}
		all = append(all, r)
		wait.Go(func() {
			for ctx.Err() == nil {
				r.act(t.Context())
			}
		})
	}
	for _, shards := range []int{5, 3} {
		b.reshard(t, shards)
	}
	stop()
	wait.Wait()
	want := 1
	for _, r := range all {
		members := group(t, r.park, r.name) // and those that were cancelled a while ago
		for id, state := range r.states {
			r.look(t.Context(), id)
			if state == redisbridge.StateParked {
				want++
				if !slices.Contains(members, id) {
					r.fault("%s is not in its group any more", id)
				}
			}
		}
		for _, fault := range r.faults {
			t.Error(fault)
		}
	}
	if got := len(b.listed(t)); got != want {
		t.Errorf("%d messages are listed, want %d", got, want)
	}
	if got := b.usages(t)[""].Messages; got != int64(want) {
		t.Errorf("%d messages are counted, want %d", got, want)
	}
}

// killable is a bridge that may die at any point: nothing of it reaches Redis any more.
func (b *bench) killable(t *testing.T) (kill func()) {
	t.Helper()
	client, err := redisbridge.NewClient(b.RedisURL)
	if err != nil {
		t.Fatal(err)
	}
	d := &cutOff{}
	client.AddHook(d)
	stop := b.run(t, func(c *redisbridge.Config) {
		c.Client, c.Lease, c.DrainTimeout = client, time.Second, time.Millisecond
	})
	t.Cleanup(func() { _ = client.Close() })
	return func() {
		d.cut.Store(true)
		stop()
	}
}

// cutOff is a client that does not reach its server any more once it is cut off.
type cutOff struct {
	dying
	cut atomic.Bool
}

func (c *cutOff) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if c.cut.Load() {
			cmd.SetErr(errKilled)
			return errKilled
		}
		return next(ctx, cmd)
	}
}

func (c *cutOff) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if c.cut.Load() {
			for _, cmd := range cmds {
				cmd.SetErr(errKilled)
			}
			return errKilled
		}
		return next(ctx, cmds)
	}
}

// shop publishes messages that are due soon, by Redis and by the inbox, and cancels some.
type shop struct {
	mu        sync.Mutex
	due       map[string]time.Time // zero where only the bridge knows it
	cancelled map[string]bool
}

func (s *shop) trade(ctx context.Context, t *testing.T, b *bench, name string) {
	t.Helper()
	ch, park := b.confirming(t), b.mover(t, false)
	random := rand.New(rand.NewPCG(3, 9))
	for n := 0; ctx.Err() == nil; n++ {
		id, delay := fmt.Sprint(name, " ", n), time.Duration(600+random.IntN(4000))*time.Millisecond
		var due time.Time
		if n%4 == 0 {
			b.enter(t, ch, id, delay)
		} else {
			ticket, err := park.Park(t.Context(), &message.Message{ID: id, RoutingKey: "order.unpaid", Body: []byte(id)}, message.After(delay))
			if err != nil || ticket.Parking != message.Parked {
				t.Errorf("park %s: %v, %v", id, ticket.Parking, err)
			}
			due = ticket.Due
		}
		cancelled := false
		if n%5 == 2 {
			change, err := park.Cancel(t.Context(), id)
			cancelled = change.Outcome == redisbridge.OutcomeDone || n%4 == 0 && change.Outcome == redisbridge.OutcomeRecorded // in the inbox
			if err != nil || !cancelled {
				t.Errorf("cancel %s: %v, %v", id, change.Outcome, err)
			}
		}
		s.mu.Lock()
		if s.due[id] = due; cancelled {
			s.cancelled[id] = true
		}
		s.mu.Unlock()
		pauseShortly()
	}
}

// Bridges change the number of shards, up and down, while messages are published, cancelled and delivered, and one of them
// dies: nothing is lost or early, and what was cancelled has no effect.
func TestReshardByBridges(t *testing.T) {
	t.Parallel()
	c := short()
	c.Shards = 4
	b := newBenchAt(t, c, servertest.ForTest(t))
	desk := b.attend(t)
	kill := b.killable(t)
	b.run(t, nil)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s := &shop{due: map[string]time.Time{}, cancelled: map[string]bool{}}
	var trading sync.WaitGroup
	for _, name := range []string{"a", "b", "c"} {
		trading.Go(func() { s.trade(ctx, t, b, name) })
	}
	until(t, "two bridges are alive", func() bool {
		stats, err := b.park.Stats(t.Context(), redisbridge.StatsOptions{})
		return err == nil && len(stats.Bridges) == 2 && stats.Bridges[0].Layout != "" && stats.Bridges[1].Layout != ""
	})
	for _, shards := range []int{7, 2} {
		if err := b.park.BeginReshard(t.Context(), shards); err != nil {
			t.Fatal(err)
		}
		if err := b.park.BeginReshard(t.Context(), shards+1); !errors.Is(err, redisbridge.ErrResharding) {
			t.Errorf("another number meanwhile: %v, want ErrResharding", err)
		}
		if _, _, err := b.park.Verify(t.Context()); !errors.Is(err, redisbridge.ErrResharding) {
			t.Errorf("verify meanwhile: %v, want ErrResharding", err)
		}
		var r redisbridge.Resharding
		is := func(what string, enough func() bool) {
			until(t, what, func() bool {
				var err error
				if r, err = b.park.Resharding(t.Context()); err != nil {
					t.Error(err)
				}
				return enough()
			})
		}
		if shards == 7 {
			is("the move has begun", func() bool { return r.Done > 0.1 || r.Next == 0 })
			kill()
		}
		is("the move is over", func() bool { return r.Next == 0 && r.Shards == shards })
	}
	stop()
	trading.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, due := range s.due {
		if s.cancelled[id] {
			continue
		}
		until(t, id+" is delivered", func() bool { return len(desk.times(id)) > 0 })
		if came := desk.times(id)[0]; came.Before(due.Add(-time.Millisecond)) || came.Before(desk.due(id).Add(-time.Millisecond)) {
			t.Errorf("%s came %v early", id, due.Sub(came))
		}
	}
	doubles := 0
	for id := range s.due {
		if n := len(desk.times(id)); s.cancelled[id] && n > 0 {
			t.Errorf("%s was cancelled, and is handled", id)
		} else if n > 1 {
			doubles++
		}
	}
	t.Logf("%d messages, of which %d were cancelled, and %d came twice", len(s.due), len(s.cancelled), doubles)
	if most := 256; doubles > most { // what the dead bridge had claimed
		t.Errorf("%d messages came twice, want at most %d", doubles, most)
	}
}

// What a process of an earlier release leaves in an old shard, whose frontier it does not know, moves, too; and then it
// can write there no more.
func TestReshardTakesWhatEarlierReleasesLeave(t *testing.T) {
	t.Parallel()
	c := short()
	c.Shards = 1
	b := newBench(t, c)
	var stray string // its slot is among the first
	for n := 0; stray == ""; n++ {
		if id := fmt.Sprint("stray ", n); strings.Contains(redisbridge.EnvelopesOf(b.topology, id), ":env:00") {
			stray = id
		}
	}
	due := b.parkOne(t, "model", message.After(time.Hour))
	record, err := b.client.HGet(t.Context(), redisbridge.EnvelopesOf(b.topology, "model"), "model").Result()
	if err != nil {
		t.Fatal(err)
	}
	if err := redisbridge.BeginReshard(t.Context(), b.park, 2); err != nil {
		t.Fatal(err)
	}
	if _, err := redisbridge.MoveOnce(t.Context(), b.park); err != nil {
		t.Fatal(err)
	}
	if err := b.client.HSet(t.Context(), redisbridge.EnvelopesOf(b.topology, stray), stray, record).Err(); err != nil {
		t.Fatal(err)
	}
	if err := redisbridge.LeaveEntry(t.Context(), b.park, stray, due); err != nil {
		t.Fatal(err)
	}
	b.move(t)
	if is := b.lookUp(t, stray); is.State != redisbridge.StateParked || !is.Due.Equal(due) {
		t.Errorf("the stray message is %s, due %v; want %v", is.State, is.Due, due)
	}
	if err := redisbridge.LeaveEntry(t.Context(), b.park, "late", due); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("the old shard takes an entry: %v, want WRONGTYPE", err)
	}
}

// Nothing begins while a bridge is alive that would not know what to do, or none is.
func TestReshardNeedsBridgesThatKnowHow(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.parkOne(t, "waits", message.After(time.Hour))
	refused := func(want string) {
		t.Helper()
		if err := b.park.BeginReshard(t.Context(), 3); !errors.Is(err, redisbridge.ErrConfiguration) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want ErrConfiguration that says %q", err, want)
		}
	}
	refused("no bridge is alive")
	b.run(t, nil)
	until(t, "the bridge is alive", func() bool {
		stats, err := b.park.Stats(t.Context(), redisbridge.StatsOptions{})
		return err == nil && len(stats.Bridges) == 1
	})
	key := "{" + b.Prefix + "}:"
	if err := errors.Join(b.client.ZAdd(t.Context(), key+"bridges", redis.Z{Score: float64(time.Now().Add(time.Hour).UnixMilli()), Member: "elder"}).Err(),
		b.client.HSet(t.Context(), key+"reports", "elder", fmt.Sprint(time.Now().UnixMilli(), ` {"version":"v0.9.0","layout":"5"}`)).Err()); err != nil {
		t.Fatal(err)
	}
	refused("elder (release v0.9.0)")
	if err := b.client.ZRem(t.Context(), key+"bridges", "elder").Err(); err != nil {
		t.Fatal(err)
	}
	if err := b.park.BeginReshard(t.Context(), 65); !errors.Is(err, redisbridge.ErrInvalid) {
		t.Errorf("65 shards: %v, want ErrInvalid", err)
	}
	if version, err := b.client.HGet(t.Context(), key+"layout", "version").Result(); err != nil || version != "5" {
		t.Errorf("a prefix that never changed has layout %s (%v), which earlier releases would refuse", version, err)
	}
}

// Where a consumer in another language asks, by the script of docs/wire-contract.md, in an old shard, it is told so.
func TestScriptForOtherLanguagesKnowsGenerations(t *testing.T) {
	t.Parallel()
	script := documentedScript(t)
	b := newBench(t, short())
	mustChange(t)(b.park.Cancel(t.Context(), "in a tier"))
	ask := func(tag string) (int64, error) {
		return b.client.Eval(t.Context(), script, []string{tag + "env", tag + "kept", tag + "claimed"}, "in a tier", 0, 0, "").Int64()
	}
	old := fmt.Sprintf("{%s:%d}:", b.topology.Prefix(), redisbridge.ShardIn(b.topology, "in a tier"))
	if answer, err := ask(old); err != nil || answer != -1 {
		t.Errorf("before: %d, %v; want -1", answer, err)
	}
	next, err := b.topology.WithShards(3)
	if err != nil {
		t.Fatal(err)
	}
	moved := fmt.Sprintf("{%s:1.%d}:", b.topology.Prefix(), redisbridge.ShardIn(next, "in a tier"))
	if err := redisbridge.BeginReshard(t.Context(), b.park, 3); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(moved); !redis.HasErrorPrefix(err, "NOTYET") {
		t.Errorf("before it has moved, the new shard says %v, want NOTYET", err)
	}
	b.move(t)
	if _, err := ask(old); !redis.HasErrorPrefix(err, "GONE") {
		t.Errorf("after it has moved, the old shard says %v, want GONE", err)
	}
	if answer, err := ask(moved); err != nil || answer != -1 {
		t.Errorf("after: %d, %v; want -1", answer, err)
	}
}
