package topology

import (
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology/internal/rabbitmq"
)

// Exchange is one exchange of the description. All exchanges are durable and
// none deletes itself.
type Exchange struct {
	Name  string
	Kind  string // amqp.ExchangeHeaders, ExchangeTopic, ExchangeFanout or ExchangeDirect
	Args  amqp.Table
	About string // for people: see about.go
}

// Queue is one queue of the description. All queues are durable quorum queues.
type Queue struct {
	Name  string
	Args  amqp.Table
	About string // for people: see about.go
}

// Binding leads from an exchange to a queue, or to another exchange.
type Binding struct {
	Source      string
	Destination string
	ToExchange  bool // Destination names an exchange
	Key         string
	Args        amqp.Table
}

// Values of arguments. Integers are int64 on purpose: amqp091-go sends a Go int as
// 32 bits.
const (
	matchAllWithX       = "all-with-x"
	noDeliveryLimit     = int64(1<<31 - 1)
	inboxDeliveryLimit  = int64(20)
	strategyAtLeastOnce = "at-least-once"
	overflowReject      = "reject-publish"
)

// waiting is the argument list of a queue that messages leave only when their
// TTL is over. At-least-once dead-lettering needs every one of these; with
// another overflow the broker silently falls back to at-most-once. The delivery
// limit is out of reach because each look at a message in the management UI
// counts as a delivery, and beyond the limit (20 by default since 4.0) the
// message would be dead-lettered before its time.
func waiting(ttlMS int64, deadLetterTo string) amqp.Table {
	return amqp.Table{
		rabbitmq.ArgQueueType:     "quorum",
		rabbitmq.ArgMessageTTL:    ttlMS,
		rabbitmq.ArgDeadLetter:    deadLetterTo,
		rabbitmq.ArgStrategy:      strategyAtLeastOnce,
		rabbitmq.ArgOverflow:      overflowReject,
		rabbitmq.ArgDeliveryLimit: noDeliveryLimit,
	}
}

// keeping is the argument list of a queue that keeps messages for people. Its
// delivery limit is out of reach because the broker drops what exceeds it.
func keeping() amqp.Table {
	return amqp.Table{rabbitmq.ArgQueueType: "quorum", rabbitmq.ArgDeliveryLimit: noDeliveryLimit}
}

// intake is the argument list of what bridges consume, the inbox and the commands: a message that breaks its consumer
// again and again ends in quarantine, raw, instead of being dropped.
func intake(quarantine string) amqp.Table {
	return amqp.Table{
		rabbitmq.ArgQueueType:     "quorum",
		rabbitmq.ArgDeadLetter:    quarantine,
		rabbitmq.ArgStrategy:      strategyAtLeastOnce,
		rabbitmq.ArgOverflow:      overflowReject,
		rabbitmq.ArgDeliveryLimit: inboxDeliveryLimit,
	}
}
