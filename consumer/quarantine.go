package consumer

import (
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/message"
)

// Headers that a quarantined message carries besides its own, and besides
// message.HeaderError with the text of the handler's last error.
const (
	HeaderAttempts    = message.ReservedPrefix + "attempts"    // int64: how often it was handled
	HeaderQueue       = message.ReservedPrefix + "queue"       // from which it was consumed
	HeaderQuarantined = message.ReservedPrefix + "quarantined" // when, in RFC 3339
)

// maxErrorText keeps the headers far from the largest frame, which they must
// fit into.
const maxErrorText = 2000

// quarantine publishes a copy of the message to the quarantine and waits until
// the broker has it, however long that takes. It gives up only when the message
// has returned to its queue anyway, or Run ends.
func (s *session) quarantine(d *amqp.Delivery, o *Observation) Outcome {
	log := s.log.With("id", o.Message.ID, "attempts", o.Attempts, "error", o.Err)
	out := broker.Outgoing{
		Exchange: s.config.Topology.Quarantine(), RoutingKey: d.RoutingKey, Mandatory: true,
		Publishing: quarantined(d, o, s.config.Queue, time.Now()),
	}
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = minBackoff, maxBackoff
	for {
		err := s.publish(out)
		switch {
		case err == nil:
			log.Error("quarantined a message")
			return Quarantined
		case permanent(err):
			s.stop(err)
			return Returned
		}
		pause := wait.NextBackOff()
		log.Warn("cannot quarantine a message; it stays unacknowledged", "reason", err, "retry_in", pause)
		if !sleep(s.alive, pause) {
			return Returned
		}
	}
}

// publish returns nil once the broker has confirmed out.
func (s *session) publish(out broker.Outgoing) error {
	answer := make(chan error, 1)
	if err := s.publisher.Publish(s.alive, out, func(err error) { answer <- err }); err != nil {
		return err
	}
	select {
	case err := <-answer:
		return err
	case <-s.alive.Done():
		return s.alive.Err()
	}
}

// quarantined is the message as it came, and beside it what went wrong.
func quarantined(d *amqp.Delivery, o *Observation, queue string, now time.Time) amqp.Publishing {
	m := message.FromDelivery(d)
	p := m.Publishing(m.Journey)
	text := o.Err.Error()
	p.Headers[message.HeaderError] = strings.ToValidUTF8(text[:min(len(text), maxErrorText)], "")
	p.Headers[HeaderAttempts] = int64(o.Attempts)
	p.Headers[HeaderQueue] = queue
	p.Headers[HeaderQuarantined] = now.UTC().Format(time.RFC3339)
	return p
}
