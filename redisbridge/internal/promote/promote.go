package promote

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/health"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
)

// promote publishes one message, or puts it back for later. After an error
// nothing was sent, and nothing else can be before another claim.
func (s *shard) promote(ctx context.Context, m *store.Parked) error {
	if s.now()-m.Due() > backlogAge.Milliseconds() {
		s.p.backlog.keep(ctx, s.name, m.Due(), s.last.Since.Add(s.p.config.Lease/3))
	} else {
		s.p.backlog.done(s.name)
	}
	if err := s.awaitPublishable(ctx); err != nil {
		return err
	}
	leads := s.leads
	if m.Direct() {
		leads = nil
	}
	p := planFor(leads, m.Due(), m.PromoteAt, s.now())
	if p.postponed > 0 {
		s.putBack(m, p.postponed)
		return nil
	}
	waits := p.lane == 0 && p.left > 0
	headers := s.headers
	if waits {
		headers = amqp.Table{}
	}
	out, path, err := outgoing(s.p.config.Topology, s.n, m, p, headers)
	if err != nil {
		s.p.config.Conditions.Begin(health.Newer, fmt.Sprintf("message %q: %v", m.ID, err), "id", m.ID)
		s.putBack(m, s.now()+s.p.config.RepairEvery.Milliseconds())
		return nil
	}
	if reason := s.poison.givenUp(m.Key()); reason != nil {
		p, waits = plan{}, false
		out, path = quarantined(s.p.config.Topology, m, fmt.Errorf("the broker does not accept the message: %w", reason))
	}
	switch there, waited, err := s.expectReady(ctx, out); {
	case err != nil:
		return err
	case !there:
		s.putBack(m, s.now()+s.exchangePause(entryOf(out)).Milliseconds())
		return nil
	case waited:
		return s.promote(ctx, m) // the plan is as old as that
	}
	alone, now := s.single > 0, s.now()
	if time.Now().Before(s.absent[out.Exchange]) {
		s.putBack(m, now+refusedPause.Milliseconds())
		return nil
	}
	if p.lane > 0 && s.leadsToSilence(out) {
		s.putBack(m, m.Due()-ahead.Milliseconds())
		return nil
	}
	target := targetOf(p, out)
	switch silence, waited, err := s.admit(ctx, target, waits); {
	case err != nil:
		return err
	case silence > 0:
		s.putBack(m, now+pauseAfter(silence).Milliseconds())
		return nil
	case waited:
		return s.promote(ctx, m)
	}
	s.inflight.add()
	span := s.startPromoting(&out, path)
	complete := func(err error) {
		endPromoting(span, err)
		o := outcome{Parked: m, path: path, err: err}
		switch {
		case o.refused():
			o.PromoteAt = now + refusedPause.Milliseconds()
		case alone && broker.Objected(err):
			wait, held := s.poison.count(m.Key(), err, broker.Unfit(err))
			o.PromoteAt = now + wait.Milliseconds()
			s.p.config.Logger.Error("the broker closes the channel over a message; trying again later", "id", m.ID, "in", wait, "error", err)
			if held {
				s.p.config.Conditions.Begin(health.Unfit, fmt.Sprintf("message %q: %v", m.ID, err), "id", m.ID)
			}
		}
		s.inflight.complete(o)
	}
	if p.lane == 0 {
		complete = s.noting(m, complete)
	}
	if waits {
		time.AfterFunc(p.left, func() { s.publishDue(ctx, out, target, m, path, complete) })
		return nil
	}
	send := s.ready.Publish
	if p.lane > 0 {
		send = s.lane
	}
	err = s.publish(ctx, send, out, target, m.ID, path, complete)
	if errors.Is(err, broker.ErrNotSent) {
		endPromoting(span, err)
		s.inflight.cancel()
		return err
	}
	if err != nil {
		complete(err)
	}
	return nil
}

// putBack has m return to the schedule for a promotion at that instant, Unix ms.
func (s *shard) putBack(m *store.Parked, promoteAt int64) {
	m.PromoteAt = promoteAt
	s.inflight.add()
	s.inflight.complete(outcome{Parked: m, back: true})
}

var errLeaseOver = errors.New("redisbridge: the lease may be over: this process, Redis or the broker stood still")

// awaitPublishable waits until a message can go to the broker at once: what happens between
// planning and publishing is missing from the time that it spends in a lane, and
// a message that is late there holds all others up. So it sees to it that neither
// Redis' clock nor the lease are those of before a pause, of this process too.
func (s *shard) awaitPublishable(ctx context.Context) error {
	s.awaitRoom(ctx, s.last.Since.Add(s.p.config.Lease/3))
	if err := s.p.config.Conn.Ready(ctx); err != nil {
		return err
	}
	if err := s.readClock(ctx); err != nil {
		return err
	}
	if time.Since(s.last.Since) > s.p.config.Lease {
		return errLeaseOver
	}
	return nil
}

// admit counts a message in for its target. It does not wait for one that is silent, or
// for a message that is due later, which publishDue counts in. Where it did wait otherwise,
// the message is not counted in, and its plan is as old as that.
func (s *shard) admit(ctx context.Context, t broker.Target, later bool) (silence time.Duration, waited bool, err error) {
	if silence = s.unanswered.Silence(t); later || silence > 0 || s.unanswered.TryAdmit(t, broker.QueueBound) {
		return silence, false, nil
	}
	silence, err = s.unanswered.AdmitUnlessSilent(ctx, t, broker.QueueBound)
	if err == nil && silence == 0 {
		s.unanswered.Withdraw(t)
	}
	return silence, true, err
}

// targetOf returns where out waits for the same queue as others, as far as a bridge knows.
func targetOf(p plan, out broker.Outgoing) broker.Target {
	if p.lane > 0 { // one queue, whatever the routing key
		return broker.Target{Exchange: out.Exchange}
	}
	return broker.Target{Exchange: out.Exchange, Key: out.RoutingKey}
}

// leadsToSilence reports whether the queue that out reaches out of its lane is known to be
// silent. The message would hold up all others in that lane: it is published when it is due.
func (s *shard) leadsToSilence(out broker.Outgoing) bool {
	t := broker.Target{Exchange: s.p.config.Topology.ReadyExchangeOf(entryOf(out)), Key: out.RoutingKey}
	return s.unanswered.Silence(t) > 0 || s.p.config.TakesIn.Silence(t) > 0
}

// silentPause bounds how long a message waits in Redis for a target that is silent.
const silentPause = 30 * time.Second

// pauseAfter returns how long a message waits for a target that has been silent for so long.
func pauseAfter(silence time.Duration) time.Duration {
	return min(max(silence/4, refusedPause), silentPause)
}

// crowded reports whether the window is full. Messages to silent targets do not count.
func (s *shard) crowded() bool {
	n := int(s.entering.Load())
	return n >= window && n-s.unanswered.Silent() >= window
}

// awaitRoom waits, until patience at most, for room in the window.
func (s *shard) awaitRoom(ctx context.Context, patience time.Time) {
	if !s.crowded() {
		return
	}
	timer := time.NewTimer(time.Until(patience))
	defer timer.Stop()
	for s.crowded() {
		select {
		case <-s.entered:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// publishDue publishes a message that has waited here until it is due, out of the loop, or
// puts it back where its target has fallen silent.
func (s *shard) publishDue(ctx context.Context, out broker.Outgoing, t broker.Target, m *store.Parked, path message.Path, complete func(error)) {
	silence, err := s.unanswered.AdmitUnlessSilent(ctx, t, broker.QueueBound)
	switch {
	case err != nil:
		complete(fmt.Errorf("%w: %w", broker.ErrNotSent, err))
		return
	case silence > 0:
		m.PromoteAt = m.Due() + pauseAfter(silence).Milliseconds()
		s.inflight.complete(outcome{Parked: m, back: true})
		return
	}
	if err := s.publish(ctx, s.ready.Publish, out, t, m.ID, path, complete); err != nil {
		complete(err)
	}
}

// lane publishes into the lane t, after all that was published there before.
func (s *shard) lane(ctx context.Context, t broker.Target, out broker.Outgoing, done func(error)) error {
	p := s.lanes[t.Exchange]
	if p == nil {
		p = broker.NewSequence(s.p.config.Conn)
		s.lanes[t.Exchange] = p
	}
	return p.Publish(ctx, out, done)
}

// sending is how a message reaches the broker.
type sending func(ctx context.Context, t broker.Target, out broker.Outgoing, done func(error)) error

// publish publishes a message that was admitted to t.
func (s *shard) publish(
	ctx context.Context, send sending, out broker.Outgoing, t broker.Target, id string, path message.Path, complete func(error),
) error {
	s.entering.Add(1)
	began := s.p.stopwatch()
	left := func() {
		s.unanswered.Answered(t)
		s.entering.Add(-1)
		signal(s.entered)
	}
	err := send(ctx, t, out, func(err error) {
		left()
		s.p.stop(began, err)
		complete(err)
	})
	if err != nil {
		left()
		return err
	}
	s.p.config.Observe(Published, id, path)
	return nil
}

// entryOf returns the entry that out was made for (see outgoing).
func entryOf(out broker.Outgoing) string {
	entry, _ := out.Publishing.Headers[wire.HeaderEntry].(string)
	return entry
}

// expectReady reports whether the ready exchange that out ends in is there, and
// whether it had to wait for the answer. Where it is missing the shard does not
// ask again before the pause is over.
func (s *shard) expectReady(ctx context.Context, out broker.Outgoing) (there, waited bool, err error) {
	entry := entryOf(out)
	if s.p.config.Ready.Has(entry) || out.Exchange == s.p.config.Topology.RetryExchange() {
		return true, false, nil
	}
	exchange := s.p.config.Topology.ReadyExchangeOf(entry)
	if time.Now().Before(s.absent[exchange]) {
		return false, false, nil
	}
	there, err = s.p.config.Ready.Look(ctx, entry)
	if err == nil && !there {
		s.absent[exchange] = time.Now().Add(s.exchangePause(entry))
		s.p.config.Logger.Warn("messages wait for their entry's ready exchange, which is missing: put the entry back into the configuration and apply the topology",
			"shard", s.name, "entry", entry, "exchange", exchange)
	}
	return there, true, err
}
