package quarantine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/tracing"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
)

// Target says where a replayed message goes.
type Target int

// The targets.
const (
	// ToQueue is the queue that the message comes from, and no other; where it comes
	// from none, as a message that the intake could not read, it is ToReady. One that has
	// expired in the inbox goes to its entry exchange, so that it is delayed: at once
	// would be early.
	ToQueue Target = iota
	// ToReady is the ready exchange, and so every queue that is bound for it.
	ToReady
)

// Errors of a message that stays in quarantine.
var (
	// ErrNoQueue: the queue it comes from does not exist any more.
	ErrNoQueue = errors.New("its queue does not exist: declare it again, or send the message to the ready exchange (--to ready)")
	// ErrNoMessage: what Redis held was no message.
	ErrNoMessage = errors.New("it is not a message but what could not be read as one")
	// ErrUndecodable: to send it on would lose those of its headers that cannot be decoded.
	ErrUndecodable = errors.New("some of its headers cannot be decoded and would be lost: send it on without them (--incomplete), move it to its entry exchange with a shovel of RabbitMQ's, or purge it")
)

// Replaying says how messages are replayed.
type Replaying struct {
	To         Target
	Limit      int  // at most this many messages; 0 is all of them
	Incomplete bool // also those with headers that cannot be decoded, and without these
}

// Replayed is what became of a message.
type Replayed struct {
	*Message
	To  string // the queue or the exchange
	Err error  // why it is in quarantine still; nil where it is not
}

// Replay sends each message that f chooses to where it is handled again. It leaves quarantine
// once the broker has confirmed it. Its attempts count anew, and its history goes along. report
// is told of each; an error of it ends the replay.
func (q *Quarantine) Replay(ctx context.Context, f Filter, how Replaying, report func(Replayed) error) error {
	return q.connected(ctx, func(w *walk) error {
		w.connect()
		r := &replay{walk: w, publisher: broker.NewPublisher(w.publishing), tracer: q.tracer, how: how, report: report, asked: map[destination]error{}}
		return w.all(ctx, func(m *Message, remove func() error) (bool, error) {
			if !f.Matches(m) {
				return true, nil
			}
			w.matched++
			return w.matched != how.Limit, r.send(ctx, m, remove)
		})
	})
}

type replay struct {
	*walk
	publisher *broker.Publisher
	tracer    *tracing.Tracer
	how       Replaying
	report    func(Replayed) error
	asked     map[destination]error // what came of looking whether they are there
}

// destination is an exchange and, where it leads to one queue, that.
type destination struct{ exchange, queue string }

func (d destination) String() string {
	if d.queue != "" {
		return d.queue
	}
	return d.exchange
}

// send publishes a message, and has it removed once that is confirmed.
func (r *replay) send(ctx context.Context, m *Message, remove func() error) error {
	to, out := r.outgoing(m, time.Now())
	err := r.look(ctx, to)
	if strings.HasPrefix(m.Error, wire.ErrEnvelope.Error()) {
		err = ErrNoMessage
	}
	if m.undecodable && !r.how.Incomplete {
		err = ErrUndecodable
	}
	if err == nil {
		r.pending++
		ended := startReplaying(r.tracer, &out)
		err = r.publisher.Publish(ctx, out, func(err error) {
			ended(err)
			r.settled <- func() error { // has room for all that are pending
				if err == nil {
					err = remove()
				}
				return r.report(Replayed{m, to.String(), err})
			}
		})
		if err == nil {
			return nil
		}
		ended(err)
		r.pending--
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return r.report(Replayed{m, to.String(), err})
}

// startReplaying begins the span of a message that has waited in quarantine, and so a
// trace that links to its publisher's span and to that of its last delivery. The message
// takes the span's context along. It returns what ends it.
func startReplaying(tracer *tracing.Tracer, out *broker.Outgoing) (ended func(error)) {
	if tracer == nil {
		return func(error) {}
	}
	headers := out.Publishing.Headers
	origin, last := tracing.Origin(headers), tracing.Last(wire.SpanIn(headers))
	if !origin.IsSampled() && !last.IsSampled() {
		return func(error) {}
	}
	m := message.Message{ID: out.Publishing.MessageId, RoutingKey: out.RoutingKey, Body: out.Publishing.Body}
	_, span := tracer.Start(context.Background(), tracing.Step{
		Name: tracing.Replay, Kind: trace.SpanKindProducer, Type: semconv.MessagingOperationTypeSend,
		Destination: out.Exchange, Alone: true, Links: []trace.SpanContext{last, origin},
	}, &m)
	if span.SpanContext().IsSampled() {
		tracing.SpanOf(span).Write(headers)
	}
	return func(err error) { tracing.End(span, err) }
}

// outgoing is the message as it is published.
func (r *replay) outgoing(m *Message, now time.Time) (destination, broker.Outgoing) {
	again := m.Message
	// Without its version the consumer would take it for a copy with the old due time.
	journey := message.Journey{Due: m.Journey.Due, Path: wire.ReplayPath, Version: m.Journey.Version, Step: m.Journey.Step}
	to := destination{exchange: r.topology.ReadyExchangeOf(m.Entry)}
	key := m.RoutingKey
	switch {
	case r.how.To == ToQueue && m.expired:
		to.exchange, journey = r.topology.EntryExchangeOf(m.Entry), message.Journey{Path: wire.ReplayPath}
		again.Headers = askingAgain(m.Headers)
	case r.how.To == ToQueue && m.Journey.Queue == r.topology.Command():
		to.exchange, journey = r.topology.Command(), message.Journey{}
	case r.how.To == ToQueue && m.Journey.Queue != "":
		to = destination{r.topology.RetryExchange(), m.Journey.Queue}
		key = to.queue
		again.Journey.Replayed(now)
		again = again.Retry()
	default:
		journey.Published = m.Journey.Published
	}
	return to, broker.Outgoing{Exchange: to.exchange, RoutingKey: key, Mandatory: true, Publishing: again.Publishing(journey)}
}

// askingAgain returns headers that ask an entry exchange for the delay that the publisher asked for.
// Those of RabbitMQ's own delays ask under our names: the message is published without them.
func askingAgain(headers amqp.Table) amqp.Table {
	name, asked := wire.HeaderDeliverAt, headers[wire.HeaderDeliveryTime]
	if asked == nil {
		name, asked = wire.HeaderDelay, headers[wire.HeaderDeliveryDelay]
	}
	if asked == nil || headers[wire.HeaderDeliverAt] != nil || headers[name] != nil {
		return headers
	}
	headers = maps.Clone(headers)
	headers[name] = asked
	return headers
}

// look makes sure that there is a way to d. A retry exchange that nobody has bound the
// queue to would send its messages to the unrouted queue.
func (r *replay) look(ctx context.Context, d destination) error {
	if err, known := r.asked[d]; known {
		return err
	}
	ch, err := r.publishing.Channel(ctx)
	if err != nil {
		return err
	}
	if d.queue != "" {
		err = ch.QueueBind(d.queue, d.queue, d.exchange, false, nil)
	} else { // of a passive declaration the broker looks at the name alone
		err = ch.ExchangeDeclarePassive(d.exchange, amqp.ExchangeTopic, true, false, false, false, nil)
	}
	if err == nil {
		_ = ch.Close() // otherwise the broker has closed it
	}
	refused, ok := errors.AsType[*amqp.Error](err)
	switch {
	case ok && refused.Code == amqp.NotFound && strings.Contains(refused.Reason, "no queue "):
		err = ErrNoQueue
	case ok:
		err = broker.Classify(err)
	case err != nil:
		err = fmt.Errorf("look for %s: %w", d, err)
	}
	r.asked[d] = err
	return err
}
