package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// What a measurement of pauses publishes, per second.
const (
	arbitraryRate = 1000
	exactRate     = 200
)

// The first pause is shorter than the lanes that the messages are meant for. All
// instants count from the first publish.
const (
	shortestDelay = 31 * time.Second // meant for the lane of 30 s
	longestDelay  = 80 * time.Second // meant for the lane of 1 m
	calm          = 82 * time.Second // from here on as many arrive as are published
	pauseAt       = calm + 20*time.Second
	pauseFor      = 20 * time.Second
	publishFor    = pauseAt + 2*pauseFor
)

// The second one is longer than the default lead.
const (
	outageFor     = topology.DefaultLead + 15*time.Second
	outageLongest = 20 * time.Second // delays, so that most of it is overdue at the end
)

// MeasurePause measures promise 6: what it costs when every bridge process
// stands still for a while, once for less than the lead and once for longer. It
// writes what it finds to out.
func MeasurePause(ctx context.Context, out, progress io.Writer) (good bool, err error) {
	fmt.Fprintln(progress, "pause: starting servers")
	m, err := newPauseLab(ctx)
	defer func() { err = errors.Join(err, m.close(context.WithoutCancel(ctx))) }()
	if err != nil {
		return false, err
	}
	fmt.Fprintf(progress, "pause: %v of load, the bridges stand still for %v of it\n", publishFor, pauseFor)
	within, err := m.pauseWithinLead(ctx)
	if err != nil {
		return false, err
	}
	fmt.Fprintf(progress, "pause: the bridges stand still for %v under load\n", outageFor)
	beyond, err := m.pauseBeyondLead(ctx)
	if err != nil {
		return false, err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "messages due\tnumber\tp50 ms\tp99 ms\tmax ms\tlost\tearly\t")
	for _, row := range []struct {
		name string
		l    lateness
	}{
		{"undisturbed", within.calm}, {fmt.Sprintf("promoted late by a pause of %v", pauseFor), within.hit},
		{"all others meanwhile", within.others}, {fmt.Sprintf("around a pause of %v", outageFor), beyond.all},
	} {
		fmt.Fprintf(table, "%s\t%d\t%.1f\t%.1f\t%.1f\t%d\t%d\t\n", row.name, len(row.l.ms), row.l.at(0.5), row.l.at(0.99), row.l.at(1), row.l.lost, row.l.early)
	}
	if err := table.Flush(); err != nil {
		return false, err
	}
	ratio := within.hit.at(0.99) / within.calm.at(0.99)
	fmt.Fprintf(out, "pause_p99_over_undisturbed %.2f\n", ratio)
	fmt.Fprintf(out, "backlog after the long pause: %d messages, drained at %.0f/s (the bare broker takes %.0f/s); out of due order by p99 %.0f ms, at most %.0f ms\n",
		beyond.backlog, beyond.rate, beyond.bare, beyond.disorder.at(0.99), beyond.disorder.at(1))
	lost, early := 0, 0
	for _, l := range []lateness{within.calm, within.hit, within.others, beyond.all} {
		lost, early = lost+l.lost, early+l.early
	}
	fmt.Fprintf(out, "pause: lost=%d early=%d\n", lost, early)
	return lost == 0 && early == 0, nil
}

// pauseLab is an installation with the default topology.
type pauseLab struct {
	*world
	pair     *servers.Pair
	conn     *amqp.Connection
	producer *producer.Producer
	park     *redisbridge.Park
	stop     context.CancelFunc
	workers  sync.WaitGroup

	mu       sync.Mutex
	arrivals map[string]time.Time // first ones
}

const pauseQueue = "pause.out"

func newPauseLab(ctx context.Context) (*pauseLab, error) {
	m := &pauseLab{world: &world{ctx: ctx, network: newNetwork(), processes: map[string]*process{}}, arrivals: map[string]time.Time{}, stop: func() {}}
	var err error
	if m.dir, err = os.MkdirTemp("", "delaybridge-pause-"); err != nil {
		return m, err
	}
	if err := os.Mkdir(filepath.Join(m.dir, "history"), 0o700); err != nil {
		return m, err
	}
	if m.pair, err = servers.Start(ctx, servers.Config{}); err != nil {
		return m, err
	}
	if m.topology, err = topology.New(topology.Config{Prefix: "pause"}); err != nil {
		return m, err
	}
	if m.conn, err = amqp.Dial(m.pair.RabbitMQ.AMQPURL()); err != nil {
		return m, err
	}
	if _, err := m.topology.Apply(ctx, m.conn); err != nil {
		return m, err
	}
	if err := m.consume(); err != nil {
		return m, err
	}
	client, err := redisbridge.NewClient(m.pair.Redis.URL())
	if err != nil {
		return m, err
	}
	if m.park, err = redisbridge.NewPark(redisbridge.ParkConfig{Client: client, Topology: m.topology}); err != nil {
		return m, err
	}
	if m.producer, err = producer.New(producer.Config{URL: m.pair.RabbitMQ.AMQPURL(), Topology: m.topology, Parker: m.park}); err != nil {
		return m, err
	}
	for n := range bridges {
		p := &process{run: m.world, role: role{
			Kind: "bridge", Name: bridgeName(n), Dir: m.dir, Topology: topology.Config{Prefix: "pause"},
			AMQP: m.pair.RabbitMQ.AMQPURL(), Redis: m.pair.Redis.URL(),
		}}
		if err := p.start(nil); err != nil {
			return m, err
		}
		m.processes[p.role.Name] = p
	}
	running, stop := context.WithCancel(ctx)
	m.stop = stop
	m.workers.Go(func() {
		if err := m.producer.Run(running); err != nil {
			m.surprise(err.Error())
		}
		_ = m.park.Close()
		_ = client.Close()
	})
	return m, nil
}

func (m *pauseLab) close(ctx context.Context) error {
	m.stop()
	var errs []error
	for _, p := range m.processes {
		errs = append(errs, p.kill())
	}
	if m.conn != nil {
		errs = append(errs, m.conn.Close())
	}
	m.workers.Wait()
	if m.pair != nil {
		errs = append(errs, m.pair.Stop(ctx))
	}
	if m.dir != "" {
		errs = append(errs, os.RemoveAll(m.dir))
	}
	return errors.Join(errs...)
}

func (m *pauseLab) consume() error {
	ch, err := m.conn.Channel()
	if err != nil {
		return err
	}
	if _, err := ch.QueueDeclare(pauseQueue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		return err
	}
	if err := ch.QueueBind(pauseQueue, "#", m.topology.ReadyExchange(), false, nil); err != nil {
		return err
	}
	if err := ch.Qos(1000, 0, false); err != nil {
		return err
	}
	deliveries, err := ch.Consume(pauseQueue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	m.workers.Go(func() {
		for d := range deliveries {
			now := time.Now()
			m.mu.Lock()
			if _, again := m.arrivals[d.MessageId]; !again {
				m.arrivals[d.MessageId] = now
			}
			m.mu.Unlock()
			_ = d.Ack(false)
		}
	})
	return nil
}

// sent is a message that was published, and when it is due.
type sent struct {
	id      string
	due     time.Time
	lane    time.Duration // for which it was meant; 0 for an exact tier
	arrived time.Time
}

// load publishes for a while at the two rates. The due times are by Redis'
// clock, which is this machine's.
func (m *pauseLab) load(ctx context.Context, name string, d, shortest, longest time.Duration) ([]sent, error) {
	tiers := []time.Duration{30 * time.Second, time.Minute}
	if longest < tiers[0] {
		tiers = []time.Duration{5 * time.Second, 10 * time.Second}
	}
	const rate = arbitraryRate + exactRate
	all := make([]sent, int(d.Seconds()*rate))
	began := time.Now()
	var failed atomic.Pointer[error]
	var hands sync.WaitGroup
	room := make(chan struct{}, 4*rate)
	for i := range all {
		pause(ctx, time.Until(began.Add(time.Duration(i)*time.Second/rate)))
		if ctx.Err() != nil || failed.Load() != nil {
			break
		}
		room <- struct{}{}
		hands.Go(func() {
			defer func() { <-room }()
			s := &all[i]
			s.id = fmt.Sprintf("%s-%d", name, i)
			delay := tiers[i%2]
			if i%(rate/exactRate) != 0 {
				delay = (shortest + rand.N(longest-shortest)).Truncate(time.Millisecond) + time.Millisecond
				for _, lead := range m.topology.Leads() {
					if lead <= delay {
						s.lane = lead
					}
				}
			}
			receipt, err := m.producer.Publish(ctx, message.Message{ID: s.id, RoutingKey: "k", Body: make([]byte, 256)}, message.After(delay))
			if err != nil {
				failed.Store(&err)
			}
			s.due = receipt.Due
		})
	}
	hands.Wait()
	if err := failed.Load(); err != nil {
		return nil, *err
	}
	return all, ctx.Err()
}

// await waits until everything has come, or nothing has for a while, and fills
// in the arrivals.
func (m *pauseLab) await(ctx context.Context, all []sent) {
	for left, quiet := -1, time.Now(); time.Since(quiet) < time.Minute && ctx.Err() == nil; pause(ctx, 200*time.Millisecond) {
		m.mu.Lock()
		missing := 0
		for i := range all {
			all[i].arrived = m.arrivals[all[i].id]
			if all[i].arrived.IsZero() {
				missing++
			}
		}
		m.mu.Unlock()
		if missing == 0 {
			return
		}
		if missing != left {
			left, quiet = missing, time.Now()
			continue
		}
		// What is not due yet is no reason to give up.
		if latest := slices.MaxFunc(all, func(a, b sent) int { return a.due.Compare(b.due) }); time.Now().Before(latest.due) {
			quiet = time.Now()
		}
	}
}

// still stops all bridges for a while.
func (m *pauseLab) still(ctx context.Context, d time.Duration) (from, to time.Time, err error) {
	from = time.Now()
	for _, p := range m.processes {
		err = errors.Join(err, p.stop())
	}
	pause(ctx, d)
	to = time.Now()
	for _, p := range m.processes {
		err = errors.Join(err, p.cont())
	}
	return from, to, err
}

type withinLead struct{ calm, hit, others lateness }

func (m *pauseLab) pauseWithinLead(ctx context.Context) (r withinLead, err error) {
	var from, to time.Time
	var stopped error
	began := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		pause(ctx, pauseAt)
		from, to, stopped = m.still(ctx, pauseFor)
	}()
	all, err := m.load(ctx, "within", publishFor, shortestDelay, longestDelay)
	<-done
	if err := errors.Join(err, stopped); err != nil {
		return r, err
	}
	m.await(ctx, all)
	for _, s := range all {
		promoted := s.due.Add(-s.lane)
		switch {
		case s.due.Before(began.Add(calm)): // warming up
		case s.due.Before(from) && s.lane > 0:
			r.calm.add(&s)
		case s.lane > 0 && promoted.After(from) && promoted.Before(to):
			r.hit.add(&s)
		default:
			r.others.add(&s)
		}
	}
	return r, ctx.Err()
}

type beyondLead struct {
	all, disorder lateness
	backlog       int
	rate, bare    float64
}

func (m *pauseLab) pauseBeyondLead(ctx context.Context) (r beyondLead, err error) {
	if r.bare, err = m.bareRate(ctx); err != nil {
		return r, err
	}
	var to time.Time
	var stopped error
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, to, stopped = m.still(ctx, outageFor)
	}()
	all, err := m.load(ctx, "beyond", outageFor, time.Second, outageLongest)
	<-done
	if err := errors.Join(err, stopped); err != nil {
		return r, err
	}
	m.await(ctx, all)
	var backlog []sent
	for _, s := range all {
		r.all.add(&s)
		if s.lane > 0 && s.due.Before(to) && s.arrived.After(to) {
			backlog = append(backlog, s)
		}
	}
	r.backlog = len(backlog)
	if r.backlog == 0 {
		return r, errors.New("pause: no message was overdue when the bridges went on")
	}
	slices.SortFunc(backlog, func(a, b sent) int { return a.arrived.Compare(b.arrived) })
	r.rate = float64(r.backlog) / backlog[r.backlog-1].arrived.Sub(to).Seconds()
	latest := backlog[0].due
	for _, s := range backlog {
		r.disorder.ms = append(r.disorder.ms, max(0, float64(latest.Sub(s.due).Microseconds())/1000))
		if s.due.After(latest) {
			latest = s.due
		}
	}
	return r, ctx.Err()
}

// bareRate publishes straight to the ready exchange, which is all that a bridge
// has to do with what is overdue, and returns how many come out per second.
func (m *pauseLab) bareRate(ctx context.Context) (float64, error) {
	const n = 30_000
	began := time.Now()
	all := make([]sent, n)
	var hands sync.WaitGroup
	failed := make([]error, 256)
	var next atomic.Int64
	for hand := range failed {
		hands.Go(func() {
			for failed[hand] == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				all[i] = sent{id: fmt.Sprintf("bare-%d", i), due: began}
				_, failed[hand] = m.producer.Publish(ctx, message.Message{ID: all[i].id, RoutingKey: "k", Body: make([]byte, 256)}, message.After(0))
			}
		})
	}
	hands.Wait()
	if err := errors.Join(failed...); err != nil {
		return 0, err
	}
	m.await(ctx, all)
	last := slices.MaxFunc(all, func(a, b sent) int { return a.arrived.Compare(b.arrived) })
	return n / last.arrived.Sub(began).Seconds(), nil
}

// lateness is that of some messages, in ms.
type lateness struct {
	ms          []float64
	lost, early int
	sorted      bool
}

func (l *lateness) add(s *sent) {
	if s.arrived.IsZero() {
		l.lost++
		return
	}
	late := s.arrived.Sub(s.due.Truncate(time.Millisecond))
	if late < 0 {
		l.early++
	}
	l.ms = append(l.ms, float64(late.Microseconds())/1000)
}

// at returns a quantile, 0 to 1.
func (l *lateness) at(q float64) float64 {
	if len(l.ms) == 0 {
		return 0
	}
	if !l.sorted {
		slices.Sort(l.ms)
		l.sorted = true
	}
	return l.ms[min(len(l.ms)-1, int(q*float64(len(l.ms))))]
}
