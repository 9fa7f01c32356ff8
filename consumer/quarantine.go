package consumer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/consumer/internal/unsettled"
	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/sleep"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/topology"
)

// The handler's last error is cut to this many bytes in a quarantined message. A panic's
// stack is cut further where the message's own headers leave less room
// (wire.MaxHeaderBytes).
const (
	maxErrorBytes = 2000
	maxStackBytes = 8 << 10
)

// quarantine publishes a copy of the message to the quarantine and waits until
// the broker has it. It gives up only when the message
// was held for as long as it may, has returned to its queue anyway, or Run ends.
func (s *session) quarantine(h *unsettled.Delivery, o *Observation) Outcome {
	log := s.log.With("id", o.Message.ID, "attempts", o.Attempts, "error", o.Err)
	if panicked, ok := errors.AsType[*PanicError](o.Err); ok {
		log = log.With("stack", string(panicked.Stack))
	}
	out := broker.Outgoing{
		Exchange: s.config.Topology.Quarantine(), RoutingKey: o.Message.RoutingKey, Mandatory: true,
		Publishing: quarantined(s.config.Topology, h.Delivery, o, time.Now()),
	}
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = minBackoff, maxBackoff
	for {
		err := s.publish(h.Wanted, out)
		if err == nil {
			log.Error("quarantined a message")
			return Quarantined
		}
		pause := wait.NextBackOff()
		log.Warn("cannot quarantine a message; it stays unacknowledged", "reason", err, "retry_in", pause)
		if !sleep.For(h.Wanted, pause) {
			return Returned
		}
	}
}

// setAside quarantines a message with headers that cannot be decoded: no handler could be told what it
// has got. The consumer's own queue dead-letters the message as it is. Another queue may dead-letter
// anywhere. So a copy of its message goes to quarantine, without those headers.
func (s *session) setAside(h *unsettled.Delivery, o *Observation, reason string) {
	o.Err = fmt.Errorf("its headers cannot be decoded: %s", reason)
	switch {
	case !s.held.Begin(h):
		o.Outcome = Returned
	case len(s.config.Bind) == 0:
		o.Outcome = s.quarantine(h, o)
	default:
		o.Outcome = Quarantined
		s.log.Error("a message goes to quarantine as it is", "id", o.Message.ID, "error", o.Err)
		s.config.Observe(*o)
		_ = h.Reject(false) // where the channel is lost, it comes again
		return
	}
	s.settle(h, o)
}

// publish returns nil once the broker has confirmed out.
func (s *session) publish(ctx context.Context, out broker.Outgoing) error {
	answer := make(chan error, 1)
	if err := s.publisher.Publish(ctx, out, func(err error) { answer <- err }); err != nil {
		return err
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// quarantined is the message as it came, and beside it what went wrong.
func quarantined(t *topology.Topology, d *amqp.Delivery, o *Observation, now time.Time) amqp.Publishing {
	m := t.Message(d)
	journey := o.Message.Journey
	if journey.Path == "" {
		journey.Published, journey.Due, journey.Path = throughTier(t, d.Headers)
	}
	p := m.Publishing(journey)
	p.Headers[wire.HeaderError] = cut(o.Err.Error(), maxErrorBytes)
	p.Headers[wire.HeaderQuarantined] = now.UTC().Format(time.RFC3339)
	if panicked, ok := errors.AsType[*PanicError](o.Err); ok {
		p.Headers[wire.HeaderStack] = ""
		room := wire.MaxHeaderBytes - wire.TableBytes(p.Headers)
		if p.Headers[wire.HeaderStack] = cut(string(panicked.Stack), min(maxStackBytes, room)); room <= 0 {
			delete(p.Headers, wire.HeaderStack)
		}
	}
	return p
}

// throughTier is the way of a message that only the broker has met, to the second: the
// broker's own account of it does not go along into quarantine.
func throughTier(t *topology.Topology, headers amqp.Table) (published, due time.Time, path message.Path) {
	deaths, _ := headers["x-death"].([]any)
	for _, entry := range deaths { // the latest comes first
		death, _ := entry.(amqp.Table)
		queue, _ := death["queue"].(string)
		at, _ := death["time"].(time.Time)
		if ttl, ok := t.TierOf(queue); ok && death["reason"] == "expired" && !at.IsZero() {
			return at.Add(-ttl), at, message.Path(wire.TierPath(wire.TTLName(ttl)))
		}
	}
	return time.Time{}, time.Time{}, ""
}

// cut returns the beginning of text, of at most that many bytes.
func cut(text string, most int) string {
	return strings.ToValidUTF8(text[:max(0, min(len(text), most))], "")
}
