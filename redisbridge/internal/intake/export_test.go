package intake

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/message"
)

// NewAcks returns what takes the tags of deliveries that are dealt with or to be
// rejected, and what acknowledges all of the former.
func NewAcks(ch amqp.Acknowledger, most int) (add, reject func(tag uint64), flush func()) {
	a := newAcks(ch, most)
	return a.add, a.reject, a.flush
}

// SinceStamp is sinceStamp.
func SinceStamp(d *amqp.Delivery, w message.When, within time.Duration, now time.Time) message.When {
	return sinceStamp(d, w, within, now)
}
