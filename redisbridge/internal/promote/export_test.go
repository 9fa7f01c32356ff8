package promote

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/tracing"
	"github.com/delaybridge/delaybridge/message"
)

// PlanFor is planFor, for its property test.
func PlanFor(leads []time.Duration, due, promoteAt, now int64) plan {
	return planFor(leads, due, promoteAt, now)
}

// AheadMS is ahead.
const AheadMS = int64(ahead / time.Millisecond)

// Lane, Left and Postponed are the fields of a plan.
func (p plan) Lane() int64      { return p.lane.Milliseconds() }
func (p plan) Left() int64      { return p.left.Milliseconds() }
func (p plan) Postponed() int64 { return p.postponed }

// PromotingSpan returns what begins and ends the span of a message that is promoted with
// these headers.
func PromotingSpan(provider trace.TracerProvider, headers amqp.Table) func() {
	s := &shard{p: &Promoter{config: Config{Tracer: tracing.New(provider, "redisbridge")}}}
	out := broker.Outgoing{Exchange: "lane", RoutingKey: "order.unpaid", Publishing: amqp.Publishing{MessageId: "o-1", Headers: headers}}
	path := message.Path("parked, then lane 1m")
	return func() { endPromoting(s.startPromoting(&out, path), nil) }
}
