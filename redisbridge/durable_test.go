package redisbridge_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/servers/redisserver"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// answers are what clients were told of their messages.
type answers struct {
	mu   sync.Mutex
	byID map[string]error
}

func (a *answers) record(id string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byID == nil {
		a.byID = map[string]error{}
	}
	a.byID[id] = err
}

func (a *answers) all() map[string]error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.byID)
}

// count returns how many answers so far are such as is says.
func (a *answers) count(is func(error) bool) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, err := range a.byID {
		if is(err) {
			n++
		}
	}
	return n
}

// await waits for more answers of a kind.
func (a *answers) await(t *testing.T, more int, what string, is func(error) bool) {
	t.Helper()
	want := a.count(is) + more
	until(t, fmt.Sprintf("%d more %s", more, what), func() bool { return a.count(is) >= want })
}

// until waits for a state. It looks less often the longer that takes: a look may cost the servers
// more than what they are looked at for.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	const most = 50 * time.Millisecond
	deadline := time.Now().Add(patience)
	for pause := 5 * time.Millisecond; !holds(); pause = min(2*pause, most) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
		<-time.After(pause)
	}
}

func isNil(err error) bool { return err == nil }

// copies are what Redis has of one ID.
type copies struct{ scheduled, envelopes int }

// stored reads everything that is parked, by the keys of docs/ARCHITECTURE.md.
func stored(t *testing.T, url string, top *topology.Topology) map[string]copies {
	t.Helper()
	client := connect(t, url)
	defer func() { _ = client.Close() }()
	ctx, found := t.Context(), map[string]copies{}
	must := func(list []string, err error) []string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	for n := range top.Shards() {
		shard := fmt.Sprintf("{%s:%d}:", top.Prefix(), n)
		sets := []string{shard + "claimed", shard + "kept"}
		for _, part := range must(client.SMembers(ctx, shard+"schedule").Result()) {
			part = shard + "schedule:" + part
			for _, bucket := range must(client.ZRange(ctx, part, 0, -1).Result()) {
				sets = append(sets, part+":"+bucket)
			}
		}
		for _, set := range sets {
			for _, id := range must(client.ZRange(ctx, set, 0, -1).Result()) {
				c := found[id]
				c.scheduled++
				found[id] = c
			}
		}
		for _, slot := range keysLike(t, url, shard+"env:*") {
			for _, id := range must(client.HKeys(ctx, slot).Result()) {
				c := found[id]
				c.envelopes++
				found[id] = c
			}
		}
	}
	return found
}

// objections compares what clients were told with what is stored afterwards.
func objections(told map[string]error, found map[string]copies) (lost, wrong []error) {
	for id, err := range told {
		there := found[id].envelopes > 0
		switch {
		case err == nil && !there:
			lost = append(lost, fmt.Errorf("%s was answered and is gone", id))
		case err != nil && !errors.Is(err, redisbridge.ErrUnconfirmed) && there:
			wrong = append(wrong, fmt.Errorf("%s is stored, though the answer was: %w", id, err))
		}
	}
	for id, c := range found {
		if _, asked := told[id]; !asked {
			wrong = append(wrong, fmt.Errorf("%s is stored, and nobody has asked for that", id))
		}
		// More entries than one, or one without an envelope, do no harm: see
		// TestStaleEntriesDoNoHarm.
		if c.scheduled == 0 || c.envelopes > 1 {
			wrong = append(wrong, fmt.Errorf("%s is scheduled %d times and has %d envelopes, so it is never delivered", id, c.scheduled, c.envelopes))
		}
	}
	return lost, wrong
}

// report fails the test over objections, and shows some of each kind.
func report(t *testing.T, told map[string]error, found map[string]copies) {
	t.Helper()
	lost, wrong := objections(told, found)
	for _, list := range [][]error{lost, wrong} {
		for _, objection := range list[:min(len(list), 5)] {
			t.Error(objection)
		}
	}
	unconfirmed := 0
	for _, err := range told {
		if errors.Is(err, redisbridge.ErrUnconfirmed) {
			unconfirmed++
		}
	}
	t.Logf("%d asked for, %d unconfirmed, %d stored, %d lost, %d wrong", len(told), unconfirmed, len(found), len(lost), len(wrong))
}

func connect(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	client, err := redisbridge.NewClient(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func anyHour() message.When {
	return message.After(time.Hour + time.Duration(rand.IntN(60_000))*time.Millisecond)
}

// killed kills and restarts Redis some times, of a cluster all nodes, each time at an instant that
// has nothing to do with what it is doing. Every other time it stays away until
// down has returned.
func killed(t *testing.T, store *redisserver.Store, a *answers, before, down func()) {
	t.Helper()
	for round := range 6 {
		before()
		a.await(t, 1+rand.IntN(2000), "stored", isNil)
		if err := store.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		if round%2 == 1 {
			down()
		}
		if err := store.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	a.await(t, 1, "stored", isNil)
}

// parking is a Redis of its own, and a park that many goroutines use.
type parking struct {
	answers
	store    *redisserver.Store
	topology *topology.Topology
	park     *redisbridge.Park
	size     int // bytes of each body
}

func newParking(t testing.TB) *parking {
	t.Helper()
	p := &parking{store: servertest.RedisForTest(t), size: 4 << 10}
	var err error
	if p.topology, err = topology.New(topology.Config{Prefix: "durable"}); err != nil {
		t.Fatal(err)
	}
	p.park, err = redisbridge.NewPark(redisbridge.ParkConfig{Client: connect(t, p.store.URL()), Topology: p.topology})
	if err != nil {
		t.Fatal(err)
	}
	servertest.VerifyAfterKills(t, p.park)
	return p
}

func (p *parking) parkOne(ctx context.Context, id string) error {
	_, err := p.park.Park(ctx, &message.Message{ID: id, RoutingKey: "k", Body: make([]byte, p.size)}, anyHour())
	return err
}

// retryPause is how long a client waits that was refused.
const retryPause = 20 * time.Millisecond

// keepParking has clients park side by side, each one message at a time, and
// keeps what they were told, until stop, which waits for them.
func (a *answers) keepParking(t *testing.T, clients int, park func(ctx context.Context, id string) error) (stop func()) {
	t.Helper()
	var stopped atomic.Bool
	var all sync.WaitGroup
	for g := range clients {
		all.Go(func() {
			for i := 0; !stopped.Load(); i++ {
				id := fmt.Sprintf("%d-%d", g, i)
				err := park(t.Context(), id)
				if a.record(id, err); err != nil {
					time.Sleep(retryPause)
				}
			}
		})
	}
	return sync.OnceFunc(func() {
		stopped.Store(true)
		all.Wait()
	})
}

// parkWhileKilled parks from many goroutines through some kills.
func (p *parking) parkWhileKilled(t *testing.T, before func()) {
	t.Helper()
	defer p.keepParking(t, 128, p.parkOne)()
	killed(t, p.store, &p.answers, before, func() {
		p.await(t, 1, "refused", func(err error) bool { return errors.Is(err, redisbridge.ErrUnreachable) })
	})
}

func TestParkedMessagesSurviveKills(t *testing.T) {
	t.Parallel()
	p := newParking(t)
	p.parkWhileKilled(t, func() {})
	report(t, p.all(), stored(t, p.store.URL(), p.topology))

	// Whoever was left in doubt parks the message again.
	for id, err := range p.all() {
		if errors.Is(err, redisbridge.ErrUnconfirmed) {
			until(t, id+" parked again", func() bool { return p.parkOne(t.Context(), id) == nil })
			p.record(id, nil)
		}
	}
	report(t, p.all(), stored(t, p.store.URL(), p.topology))
}

// The test above can fail: a Redis without its append-only file loses messages.
func TestKillsAreNoticedWithoutPersistence(t *testing.T) {
	t.Parallel()
	p := newParking(t)
	p.parkWhileKilled(t, func() {
		operator(servertest.Primaries(t, p.store.URL())).set(t, "appendonly", "no")
	})
	lost, _ := objections(p.all(), stored(t, p.store.URL(), p.topology))
	if len(lost) == 0 {
		t.Error("nothing was lost, or nobody has noticed")
	}
	t.Logf("%d of %d lost", len(lost), len(p.all()))
}

// A foreign client's message leaves the inbox only once Redis keeps it.
func TestInboxIsAcknowledgedAfterTheDisk(t *testing.T) {
	t.Parallel()
	store := servertest.RedisForTest(t)
	env := servertest.ForTest(t)
	env.RedisURL = store.URL()
	b := newBenchAt(t, short(), env)
	log := newLogCapture()
	stop := b.run(t, func(c *redisbridge.Config) { c.Client, c.Logger = connect(t, store.URL()), log.logger() })

	var a answers
	var stopped atomic.Bool
	var all sync.WaitGroup
	conn := b.dial(t)
	for g := range 16 {
		ch, err := conn.Channel()
		if err == nil {
			err = ch.Confirm(false)
		}
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for i := 0; !stopped.Load(); i++ {
				id := fmt.Sprintf("%d-%d", g, i)
				confirm, err := ch.PublishWithDeferredConfirm(b.topology.EntryExchange(), "order.unpaid", true, false, amqp.Publishing{
					MessageId: id, DeliveryMode: amqp.Persistent,
					Headers: amqp.Table{wire.HeaderDelay: int64(3_600_000 + rand.IntN(60_000))},
				})
				if err == nil && !confirm.Wait() {
					err = errors.New("refused")
				}
				if a.record(id, err); err != nil {
					t.Errorf("publish %s: %v", id, err)
					return
				}
			}
		})
	}
	t.Cleanup(all.Wait)
	t.Cleanup(func() { stopped.Store(true) })
	const begins, ends = "messages stay in the inbox", "messages leave the inbox again"
	killed(t, store, &a, func() {}, func() {
		before := log.count(begins)
		until(t, "the bridge says that Redis is down", func() bool { return log.count(begins) > before || log.count(begins) > log.count(ends) })
	})
	stopped.Store(true)
	all.Wait()

	// The bridge gives back what it has not acknowledged when it stops.
	until(t, "inbox taken in", func() bool {
		lost, _ := objections(a.all(), stored(t, store.URL(), b.topology))
		return len(lost) == 0
	})
	stop()
	ch, err := b.dial(t).Channel()
	if err != nil {
		t.Fatal(err)
	}
	if inbox, err := ch.QueueDeclarePassive(b.topology.Inbox(), true, false, false, false, nil); err != nil || inbox.Messages != 0 {
		t.Errorf("in the inbox: %d, %v; want nothing", inbox.Messages, err)
	}
	report(t, a.all(), stored(t, store.URL(), b.topology))
}

// BenchmarkParkingByPersistence compares how long the same messages take to be
// parked under each setting of Redis, in turns, so that what else the machine
// does concerns all alike. It reports multiples of the time without persistence.
func BenchmarkParkingByPersistence(b *testing.B) {
	const publishers, each, turns = 512, 20, 5
	p := newParking(b)
	p.size = 256
	admin := operator(servertest.Primaries(b, p.store.URL()))
	settings := []struct{ name, appendonly, appendfsync string }{
		{"none", "no", "always"}, {"everysec", "yes", "everysec"}, {"always", "yes", "always"},
	}
	took := map[string]time.Duration{}
	for turn := 0; b.Loop(); turn++ {
		for i := range turns * len(settings) {
			s := settings[i%len(settings)]
			admin.set(b, "appendfsync", s.appendfsync)
			admin.set(b, "appendonly", s.appendonly)
			until(b, "append-only file begun", func() bool {
				return admin.each(b, func(server *redis.Client) error {
					info, err := server.Info(b.Context(), "persistence").Result()
					if err == nil && strings.Contains(info, "aof_rewrite_in_progress:1") || strings.Contains(info, "aof_rewrite_scheduled:1") {
						err = errors.New("not yet")
					}
					return err
				}) == nil
			})
			began := time.Now()
			var all sync.WaitGroup
			for g := range publishers {
				all.Go(func() {
					for n := range each {
						if err := p.parkOne(b.Context(), fmt.Sprintf("%d-%d-%d-%d", turn, i, g, n)); err != nil {
							b.Error(err)
						}
					}
				})
			}
			all.Wait()
			took[s.name] += time.Since(began)
			if err := admin.each(b, func(server *redis.Client) error { return server.FlushDB(b.Context()).Err() }); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, s := range settings[1:] {
		b.ReportMetric(took[s.name].Seconds()/took["none"].Seconds(), s.name+"/none")
	}
}
