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
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/internal/fault/skew"
)

// Config of a run.
type Config struct {
	// Duration is how long orders are placed, in all worlds together. What does
	// not fit is left out: the scenarios alone before their mixture, the cluster
	// before the single node.
	Duration time.Duration
	// Seed decides what the customers do and what is broken in which order.
	Seed uint64
	// Rate is the number of orders placed per second.
	Rate float64
	// Only names the one scenario to run, over and over. Defaults to all.
	Only string
	// Store names the one order store to use. Defaults to all, which share the orders.
	Store string
	// Dir keeps the history. Defaults to a new folder, which is removed when no
	// promise was broken.
	Dir string
	// Progress is told what goes on. Defaults to nobody.
	Progress io.Writer
}

// Defaults of [Config].
const (
	DefaultDuration = 2 * time.Minute
	DefaultRate     = 50
)

// Where the time goes.
const (
	clusterShare = 0.2  // of the whole
	aloneShare   = 0.65 // of a world's time
	// leastAlone is what a scenario needs alone, on the average. Where there is
	// less time than that for each, there is only the mixture.
	leastAlone = 5 * time.Second
	// calmFor is how long a run goes on before anything is broken, so that what is late then
	// is seen. Shorter runs than leastWithCalm begin at once.
	calmFor       = 10 * time.Second
	leastWithCalm = time.Minute
	// leastWithApart is for how long a run goes on in which what takes minutes is tried, too.
	leastWithApart = 20 * time.Minute
	// mixers is how many scenarios are under way at a time in the mixture.
	mixers = 3
	// restWithin is how long the last orders may take after everything is mended,
	// without any of them coming.
	restWithin = 4 * time.Minute
)

// Names of acts: before anything is broken, and when scenarios overlap.
const (
	calmAct = "nothing broken"
	mixture = "all together"
)

// Result of a run.
type Result struct {
	*history.Report
	// Injected counts how often each scenario was used.
	Injected map[string]int
	// Withheld are the scenarios that were left out because this release of RabbitMQ loses messages in them.
	Withheld []string
	// Surprises are what nobody asked for: a process that ended by itself,
	// something deleted that was not put back.
	Surprises []string
	// Dirs hold the histories, if they were kept.
	Dirs []string
}

// Good says whether every promise was kept.
func (r *Result) Good() bool { return len(r.Violations) == 0 && len(r.Surprises) == 0 }

// Run runs scenarios and checks the history. An error means that the run could
// not be made, not that a promise was broken.
func Run(ctx context.Context, c Config) (*Result, error) {
	if c.Duration <= 0 {
		c.Duration = DefaultDuration
	}
	if c.Rate <= 0 {
		c.Rate = DefaultRate
	}
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	dir, err := c.folder()
	if err != nil {
		return nil, err
	}
	// Building takes a minute or more where nothing is cached, and only one
	// scenario needs it.
	skewed := sync.OnceValues(func() (string, error) {
		path := filepath.Join(dir, "skewed")
		return path, skew.Build(ctx, "github.com/delaybridge/delaybridge/internal/fault/cmd/fault", path)
	})
	go skewed() //nolint:errcheck // the scenario calls it again, and gets the error
	defer func() {
		path, _ := skewed()
		_ = os.Remove(path)
	}()
	earlier := sync.OnceValues(func() (string, error) {
		path := filepath.Join(dir, "earlier")
		return path, buildEarlier(ctx, path)
	})
	defer func() { _ = os.Remove(filepath.Join(dir, "earlier")) }()
	result := Result{Injected: map[string]int{}}
	var reports []*history.Report
	for _, part := range c.parts() {
		w := &stagehand{Config: c, dir: filepath.Join(dir, part.name), skewed: skewed, earlier: earlier, part: part}
		report, err := w.perform(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s (seed %d; see %s): %w", part.name, c.Seed, dir, err)
		}
		reports = append(reports, report)
		result.Surprises = append(result.Surprises, w.surprises...)
		for name, n := range w.injected {
			result.Injected[name] += n
		}
		if w.withheld != "" {
			result.Withheld = append(result.Withheld, w.withheld)
		}
		result.Dirs = append(result.Dirs, w.dir)
	}
	result.Report = history.Merge(reports...)
	if result.Good() && c.Dir == "" {
		result.Dirs = nil
		return &result, os.RemoveAll(dir)
	}
	return &result, nil
}

func (c *Config) folder() (string, error) {
	if c.Dir != "" {
		return c.Dir, os.MkdirAll(c.Dir, 0o700)
	}
	return os.MkdirTemp("", "delaybridge-fault-")
}

func (c *Config) stores() []string {
	if c.Store != "" {
		return []string{c.Store}
	}
	return Stores()
}

// part is what happens in one world.
type part struct {
	name     string
	kind     where
	duration time.Duration
}

func (c *Config) parts() []part {
	node := part{"node", single, c.Duration}
	cluster := part{"cluster", clustered, time.Duration(clusterShare * float64(c.Duration))}
	if c.Only != "" {
		i := slices.IndexFunc(scenarios(), func(s scenario) bool { return s.name == c.Only })
		if i >= 0 && scenarios()[i].where == clustered {
			cluster.duration = c.Duration
			return []part{cluster}
		}
		return []part{node}
	}
	if cluster.duration < time.Duration(len(clusterScenarios()))*leastAlone {
		return []part{node}
	}
	node.duration -= cluster.duration
	return []part{node, cluster}
}

// act is a stretch of a run that one scenario has alone, or in which they are
// mixed.
type act struct {
	name     string
	began    int64 // Unix microseconds
	duration time.Duration
	deck     []scenario
	hands    int // so many scenarios at a time
	atLeast  int // so many in all
}

// acts divides a part's time. In a cluster only what is different there is tried
// alone.
func (c *Config) acts(p part) []act {
	var here, alone []scenario
	for _, s := range scenarios() {
		if s.where&apart != 0 && c.Only == "" && c.Duration < leastWithApart {
			continue
		}
		if s.where&p.kind != 0 && (c.Only == "" || s.name == c.Only) {
			if s.where&apart == 0 || c.Only != "" {
				here = append(here, s)
			}
			if p.kind == single || s.where == clustered {
				alone = append(alone, s)
			}
		}
	}
	if c.Only != "" {
		return []act{{name: c.Only, duration: p.duration, deck: here, hands: 1, atLeast: 1}}
	}
	var acts []act
	left := p.duration
	if p.kind == single && c.Duration >= leastWithCalm {
		acts = append(acts, act{name: calmAct, duration: calmFor})
		left -= calmFor
	}
	each := time.Duration(aloneShare*float64(left)) / time.Duration(len(alone))
	if each >= leastAlone {
		for _, s := range alone {
			acts = append(acts, act{name: s.name, duration: each, deck: []scenario{s}, hands: 1, atLeast: 1})
			left -= each
		}
	}
	return append(acts, act{name: mixture, duration: left, deck: here, hands: mixers})
}

// stagehand performs one part of a run.
type stagehand struct {
	Config
	dir       string
	skewed    func() (string, error)
	earlier   func() (string, error)
	part      part
	surprises []string
	injected  map[string]int
	withheld  string // a scenario
}

func (s *stagehand) say(format string, args ...any) {
	fmt.Fprintf(s.Progress, "fault: "+format+"\n", args...)
}

func (s *stagehand) perform(ctx context.Context) (report *history.Report, err error) {
	s.say("%s: starting servers", s.part.name)
	w, err := newWorld(ctx, s.dir, s.Seed, s.part.kind == clustered, s.stores())
	w.skewedProgram, w.earlierProgram, w.say = s.skewed, s.earlier, s.say
	defer func() {
		if report == nil || len(report.Violations)+len(w.surprises) > 0 {
			w.saveLogs(context.WithoutCancel(ctx))
		}
		err = errors.Join(err, w.close(context.WithoutCancel(ctx)))
	}()
	if err != nil {
		return nil, err
	}
	if err := w.populate(s.Rate, s.part.duration); err != nil {
		return nil, err
	}
	acts, err := s.bearable(w, s.acts(s.part))
	if err != nil {
		return nil, err
	}
	leave := w.operate(ctx)
	err = s.playAll(ctx, w, acts)
	leave()
	if err != nil {
		return nil, err
	}
	s.say("%s: waiting for the last orders", s.part.name)
	final, err := w.rest(ctx)
	if err != nil {
		return nil, err
	}
	s.surprises, s.injected = w.surprises, w.injected
	if err := final.Save(s.dir); err != nil {
		return nil, err
	}
	if err := saveActs(s.dir, acts); err != nil {
		return nil, err
	}
	return Judge(s.dir)
}

// bearable takes the scenario out of acts that the broker cannot bear, and says so.
func (s *stagehand) bearable(w *world, acts []act) ([]act, error) {
	name, why, err := w.withheld()
	if err != nil || name == "" {
		return acts, err
	}
	s.say("%s: %s is left out: %s", s.part.name, name, why)
	s.withheld = name
	for n := range acts {
		acts[n].deck = slices.DeleteFunc(acts[n].deck, func(one scenario) bool { return one.name == name })
	}
	acts = slices.DeleteFunc(acts, func(a act) bool { return a.hands > 0 && len(a.deck) == 0 })
	if len(acts) == 0 {
		return nil, fmt.Errorf("scenario %q: %s", name, why)
	}
	return acts, nil
}

func (s *stagehand) playAll(ctx context.Context, w *world, acts []act) error {
	began := time.Now()
	var planned time.Duration
	for n := range acts {
		a := &acts[n]
		planned += a.duration
		a.began = history.Now()
		// What one act takes too long, the next one has less.
		if err := s.play(ctx, w, n, a, began.Add(planned)); err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		s.say("%s: %-28s %3d faults", s.part.name, a.name, w.faults)
	}
	return nil
}

// operate has an operator look after unrouted and quarantine until the returned function is called: what comes to the
// former while no queue is bound for it is sent on once one is, and what has reached its delivery limit is replayed,
// which may be after the fault has ended.
func (w *world) operate(ctx context.Context) (leave func()) {
	ctx, cancel := context.WithCancel(ctx)
	var operator sync.WaitGroup
	operator.Go(func() {
		for ctx.Err() == nil {
			pause(ctx, operatorEvery)
			// What is away now is there at another time.
			_ = w.clearUnrouted()
			_ = w.replay(ctx, atLimit())
		}
	})
	return func() { cancel(); operator.Wait() }
}

// play lets an act go on until its end, and its last injections come to theirs.
func (s *stagehand) play(ctx context.Context, w *world, n int, a *act, end time.Time) error {
	dealer := dealer{deck: a.deck, seed: s.Seed, stream: uint64(s.part.kind)<<32 + uint64(n)<<16}
	var hands sync.WaitGroup
	failed := make([]error, a.hands)
	for hand := range a.hands {
		hands.Go(func() {
			for failed[hand] == nil && (time.Now().Before(end) || dealer.dealt() < a.atLeast) {
				one, rng := dealer.deal()
				failed[hand] = w.inject(ctx, &one, rng)
			}
		})
	}
	hands.Wait()
	if a.hands == 0 {
		pause(ctx, time.Until(end))
	}
	return errors.Join(failed...)
}

func (w *world) inject(ctx context.Context, s *scenario, rng *rand.Rand) error {
	i := injection{world: w, scenario: s, ctx: ctx, rng: rng}
	release := w.locks.hold(w.locksOf(s))
	defer release()
	err := s.inject(&i)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("inject %q: %w", s.name, err)
	}
	w.mu.Lock()
	w.injected[s.name]++
	w.mu.Unlock()
	i.hold(100*time.Millisecond, 800*time.Millisecond)
	return nil
}

// dealer deals scenarios from a deck that is shuffled anew whenever it is used
// up. What is dealt when, and all choices within it, follow from the seed.
type dealer struct {
	deck         []scenario
	seed, stream uint64

	mu sync.Mutex
	n  int
}

func (d *dealer) dealt() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.n
}

func (d *dealer) deal() (scenario, *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	rng := rand.New(rand.NewPCG(d.seed, d.stream+uint64(d.n)))
	at := d.n % len(d.deck)
	if at == 0 {
		d.deck = slices.Clone(d.deck)
		rng.Shuffle(len(d.deck), func(i, j int) { d.deck[i], d.deck[j] = d.deck[j], d.deck[i] })
	}
	d.n++
	return d.deck[at], rng
}
