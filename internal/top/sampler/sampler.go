// Package sampler asks Redis, RabbitMQ and its management API for what `delaybridge top`
// shows, again and again, each by itself: none waits for another one that is away.
//
// A look at Redis is two commands per shard and three more, however much is parked; one at
// RabbitMQ a passive declaration per queue of the topology; one at the management API three
// requests, every five seconds, for these queues alone.
package sampler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/sleep"
	"github.com/delaybridge/delaybridge/internal/top"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

const (
	// ManagementEvery is how often the management API counts, and no sooner is it asked.
	ManagementEvery = 5 * time.Second
	// patience is how long an answer may take before it is said that there is none.
	patience = 3 * time.Second
	// deliveries is how many of a shard are looked at each time.
	deliveries = 100
)

// Config of a [Sampler].
type Config struct {
	// Park is where to ask Redis. Required.
	Park *redisbridge.Park
	// Topology is what to look for. Required.
	Topology *topology.Topology
	// AMQPURL is the broker's URI. Required.
	AMQPURL string
	// Management is where to ask for rates. Defaults to nowhere: they are not known then.
	Management *topology.Management
	// Interval is from one answer to the next question.
	Interval time.Duration
}

// Sampler looks. Make one with [New].
type Sampler struct {
	config Config
	line   line
	last   *redisbridge.Stats

	mu      sync.Mutex    // of what follows, and of last
	resumed chan struct{} // closed unless looking is paused
}

// New does no I/O.
func New(c Config) *Sampler {
	s := &Sampler{config: c, line: line{url: c.AMQPURL}, resumed: make(chan struct{})}
	close(s.resumed)
	return s
}

// Pause has nothing asked until it is called with false.
func (s *Sampler) Pause(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.resumed:
		if is {
			s.resumed = make(chan struct{})
		}
	default:
		if !is {
			close(s.resumed)
		}
	}
}

func (s *Sampler) awaitResumed(ctx context.Context) {
	s.mu.Lock()
	resumed := s.resumed
	s.mu.Unlock()
	select {
	case <-resumed:
	case <-ctx.Done():
	}
}

// Run looks, and sends what it sees from one goroutine per source, until ctx ends. It
// returns an error where a source says at first that the configuration is wrong.
func (s *Sampler) Run(ctx context.Context, send func(top.Look)) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var watches sync.WaitGroup
	for _, one := range s.sources() {
		watches.Go(func() {
			if err := s.watch(ctx, one, send); err != nil {
				stop(err)
			}
		})
	}
	defer context.AfterFunc(ctx, s.line.close)() // a question that RabbitMQ does not answer ends with it
	watches.Wait()
	s.line.close()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// Once looks at every source, and sends what it sees. One that does not answer within three
// seconds is sent as an error that says so.
func (s *Sampler) Once(ctx context.Context, send func(top.Look)) {
	var looks sync.WaitGroup
	var one sync.Mutex
	for _, source := range s.sources() {
		looks.Go(func() {
			l := s.takeInTime(ctx, source)
			one.Lock()
			defer one.Unlock()
			send(l)
		})
	}
	looks.Wait()
}

// Close ends what Once has begun.
func (s *Sampler) Close() { s.line.close() }

type source struct {
	is    top.Source
	every time.Duration
	look  func(context.Context, *top.Look) error
}

func (s *Sampler) sources() []source {
	return []source{
		{top.Redis, s.config.Interval, s.lookAtRedis},
		{top.RabbitMQ, s.config.Interval, s.lookAtRabbitMQ},
		{top.Management, max(s.config.Interval, ManagementEvery), s.lookAtManagement},
	}
}

// watch looks at one source.
func (s *Sampler) watch(ctx context.Context, of source, send func(top.Look)) error {
	for first := true; ctx.Err() == nil; {
		answer := make(chan top.Look, 1)
		go func() { answer <- s.take(ctx, of) }()
		l := awaitAnswer(answer, of.is, send)
		s.remember(&l)
		if ctx.Err() != nil {
			return nil
		}
		if wrong := isWrong(l.Err); first && wrong && of.is != top.Management {
			return l.Err
		}
		first = first && l.Err != nil
		send(l)
		sleep.For(ctx, of.every) // from the answer on: who is slow is asked less often
		s.awaitResumed(ctx)
	}
	return nil
}

// awaitAnswer says from time to time that there is none yet.
func awaitAnswer(answer <-chan top.Look, of top.Source, send func(top.Look)) top.Look {
	began := time.Now()
	ticker := time.NewTicker(patience)
	defer ticker.Stop()
	for {
		select {
		case l := <-answer:
			return l
		case <-ticker.C:
			send(top.Look{Of: of, Asked: began, At: time.Now(), Err: fmt.Errorf("no answer for %v", time.Since(began).Truncate(time.Second))})
		}
	}
}

func (s *Sampler) take(ctx context.Context, of source) top.Look {
	l := top.Look{Of: of.is, Asked: time.Now()}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	l.Err = of.look(limited, &l)
	l.At = time.Now()
	return l
}

// takeInTime is take for who shows what there is: a call may not end with its context.
func (s *Sampler) takeInTime(ctx context.Context, of source) top.Look {
	asked := time.Now()
	answer := make(chan top.Look, 1)
	go func() { answer <- s.take(ctx, of) }()
	timer := time.NewTimer(patience + 500*time.Millisecond) // what is had at the end of patience is on its way
	defer timer.Stop()
	select {
	case l := <-answer:
		s.remember(&l)
		return l
	case <-timer.C:
	case <-ctx.Done():
	}
	return top.Look{Of: of.is, Asked: asked, At: time.Now(), Err: fmt.Errorf("no answer within %v", patience)}
}

// remember keeps what the next look goes on from.
func (s *Sampler) remember(l *top.Look) {
	if l.Of == top.Redis && l.Err == nil {
		s.mu.Lock()
		s.last = &l.Stats
		s.mu.Unlock()
	}
}

func isWrong(err error) bool {
	return errors.Is(err, broker.ErrConfiguration) || errors.Is(err, redisbridge.ErrConfiguration)
}

func (s *Sampler) lookAtRedis(ctx context.Context, l *top.Look) (err error) {
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	l.Stats, err = s.config.Park.Stats(ctx, redisbridge.StatsOptions{Deliveries: deliveries, Since: last})
	return err
}

func (s *Sampler) lookAtRabbitMQ(ctx context.Context, l *top.Look) (err error) {
	channels, err := s.line.open(ctx)
	if err != nil {
		return err
	}
	l.Counts, err = s.config.Topology.Count(ctx, channels)
	return err
}

func (s *Sampler) lookAtManagement(ctx context.Context, l *top.Look) (err error) {
	if s.config.Management == nil {
		return top.ErrNoManagement
	}
	if l.Flows, err = flowsOf(ctx, s.config.Topology, s.config.Management); err != nil {
		return err
	}
	l.Overrides, err = s.config.Topology.Overrides(ctx, s.config.Management)
	return err
}
