package topology

import (
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
)

// Message returns the message of a delivery as its publisher sent it, and of its journey what only
// the bridge can have written: anybody may publish with headers of the same names. The broker vouches for
// who that was, by the delivery's exchange and by x-death:
//
//   - Out of a lane, or straight from a ready exchange, the retry exchange or the quarantine, to which
//     publishers may not write: all of Journey, Entry and UserID.
//   - Out of a tier: when it was published and is due, as far as that can be true. Any publisher comes
//     there.
//   - Everything else: nothing. UserID is the property, which the broker has compared with the publisher's
//     user; Entry is that of the exchange.
//
// RabbitMQ 3.10 to 3.13 believe an x-death that a publisher sends. There the last queue is certain all the
// same, and so is all of the above; but not which exchange a tier's message came by, and so its
// entry, nor where a message came from that a queue of yours has dead-lettered.
func (t *Topology) Message(d *amqp.Delivery) message.Message {
	by, exchange, ttl := t.origin(d)
	if by == bridge {
		return message.FromBridge(d)
	}
	m := message.FromDelivery(d)
	m.Entry = t.EntryOf(exchange)
	if by == tier {
		published, due := wire.InstantOf(d.Headers[wire.HeaderPublished]), wire.InstantOf(d.Headers[wire.HeaderDue])
		if possible(published, due, ttl, time.Now()) {
			m.Journey = message.Journey{Published: published, Due: due, Path: message.Path(wire.TierPath(wire.TTLName(ttl)))}
		}
	}
	return m
}

// publisher is who may have written what a message tells of its journey.
type publisher int

const (
	anybody publisher = iota
	tier              // anybody, through a tier
	bridge            // or a producer or consumer that may do what a bridge does
)

// origin follows a message back, through the queues of others that have dead-lettered it, to the exchange
// that it was published to. ttl is that of the tier.
func (t *Topology) origin(d *amqp.Delivery) (by publisher, exchange string, ttl time.Duration) {
	exchange = d.Exchange
	list, _ := d.Headers["x-death"].([]any)
	for _, entry := range list { // the latest comes first
		if !t.isClosed(exchange) {
			return anybody, exchange, 0
		}
		death, _ := entry.(amqp.Table)
		queue, _ := death["queue"].(string)
		exchange, _ = death["exchange"].(string)
		if ttl, is := t.TierOf(queue); is {
			return tier, exchange, ttl
		}
		switch {
		case strings.HasPrefix(queue, t.name("lane", "")):
			return bridge, exchange, 0
		case queue == t.Inbox(), queue == t.Command():
			return anybody, exchange, 0
		}
	}
	if t.isClosed(exchange) {
		return bridge, exchange, 0
	}
	return anybody, exchange, 0
}

// isClosed reports whether an exchange, of this or another configuration with the same prefix, is one that
// publishers may not write to.
func (t *Topology) isClosed(exchange string) bool {
	return exchange == t.ReadyExchange() || exchange == t.RetryExchange() || exchange == t.Quarantine() ||
		strings.HasPrefix(exchange, t.name("ready", "")) || strings.HasPrefix(exchange, t.name("due", ""))
}

// clocksApart is by how much the clocks of a producer and of who has its message may differ.
const clocksApart = time.Minute

// possible reports whether a message that has come out of a tier may have been published and due when it
// says so. What it says of another time can harm only its publisher.
func possible(published, due time.Time, ttl time.Duration, now time.Time) bool {
	return !published.IsZero() && (due.Sub(published)-ttl).Abs() <= time.Millisecond && due.Before(now.Add(clocksApart))
}
