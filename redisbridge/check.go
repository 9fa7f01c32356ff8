package redisbridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
	"github.com/delaybridge/delaybridge/topology"
)

const (
	// CheckGrace is for how long something may be wrong before [Bridge.Check] says so,
	// once it was right: a lost connection mostly comes back by itself.
	CheckGrace = 10 * time.Second
	// checkWait is how long Check waits for Redis.
	checkWait = 2 * time.Second
)

var errNotRunning = errors.New("the bridge is not running")

// Check returns nil while this bridge does its work: it is connected to RabbitMQ and
// Redis, has found the topology complete, and promotes the shards that are its own. The
// error joins all that is not so, and has lasted for longer than CheckGrace, or since the
// start. It asks Redis, for two seconds at most, and no other server.
func (b *Bridge) Check(ctx context.Context) error {
	now := time.Now()
	switch b.phase.Load() {
	case phaseNew, phaseEnded:
		return errNotRunning
	case phaseDraining:
		return errors.New("the bridge is stopping")
	}
	faults := []error{b.checkRedis(ctx, now)}
	for _, conn := range []*broker.Conn{b.conn, b.consume} {
		if err := conn.State().Check(now, CheckGrace); err != nil {
			faults = append(faults, err)
			break // the other one has the same fault
		}
	}
	faults = append(faults, b.repairs.check(now))
	for _, s := range b.shards {
		faults = append(faults, s.health.check(now, s.n, b.register.prefers(s.n)))
	}
	return errors.Join(faults...)
}

// phases of a Bridge.
const (
	phaseNew = iota
	phaseRunning
	phaseDraining
	phaseEnded
)

// checkRedis asks Redis. A silent server may keep the client for longer than ctx lasts.
func (b *Bridge) checkRedis(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, checkWait)
	defer cancel()
	answer := make(chan error, 1)
	go func() { answer <- b.config.Client.Ping(ctx).Err() }()
	var err error
	select {
	case err = <-answer:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err == nil {
		b.heard.Store(time.Now().UnixNano())
		return nil
	}
	heard := b.heard.Load()
	silent := now.Sub(time.Unix(0, heard)).Truncate(time.Millisecond)
	switch {
	case heard == 0:
		return fmt.Errorf("no answer from Redis: %w", store.Classify(err))
	case silent < CheckGrace:
		return nil
	}
	return fmt.Errorf("no answer from Redis for %v: %w", silent, store.Classify(err))
}

// health is how a shard is doing.
type health struct {
	mu    sync.Mutex
	owned bool
	began bool // it was this bridge's once
	since time.Time
	fault error // why the last step failed
	wrong time.Time
	lost  int64 // leases that ran out
}

// own notes down whether the shard is this bridge's.
func (h *health) own(owned, expired bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.owned != owned || h.since.IsZero() {
		h.owned, h.since = owned, time.Now()
	}
	h.began = h.began || owned
	if expired {
		h.lost++
	}
}

// end notes down how a step ended.
func (h *health) end(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil && h.fault == nil {
		h.wrong = time.Now()
	}
	h.fault = err
	if errors.Is(err, errLeaseOver) {
		h.lost++
	}
}

func (h *health) check(now time.Time, shard int, preferred bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	lasted := func(since time.Time) bool { return !h.began || now.Sub(since) >= CheckGrace }
	switch {
	case h.fault != nil && lasted(h.wrong):
		return fmt.Errorf("shard %d cannot be worked on since %v: %w", shard, now.Sub(h.wrong).Truncate(time.Millisecond), h.fault)
	case preferred && !h.owned && lasted(h.since):
		return fmt.Errorf("shard %d is not promoted here yet", shard)
	}
	return nil
}

// verdict is what the last repair has found of the topology.
type verdict struct {
	mu    sync.Mutex
	known bool
	wrong error
	since time.Time
}

// judge takes what a repair has returned. A fault of the connection says nothing.
func (v *verdict) judge(err error) {
	_, differs := errors.AsType[*topology.MismatchError](err)
	_, denied := errors.AsType[*topology.PermissionError](err)
	bad := differs || errors.Is(err, topology.ErrIncomplete)
	if err != nil && !bad && !denied {
		return
	}
	if !bad { // what may not be compared is there at least
		err = nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.wrong == nil {
		v.since = time.Now()
	}
	v.known, v.wrong = true, err
}

func (v *verdict) bad() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.wrong != nil
}

func (v *verdict) check(now time.Time) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case !v.known:
		return errors.New("the topology is not verified yet")
	case v.wrong != nil && now.Sub(v.since) >= CheckGrace:
		return v.wrong
	}
	return nil
}

func (r *repairs) check(now time.Time) error { return r.verdict.check(now) }
