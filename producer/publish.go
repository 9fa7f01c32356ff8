package producer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
)

// Receipt says what became of a published message.
type Receipt struct {
	// Path is the way the message takes.
	Path message.Path
	// Due is when it is to be delivered: by Redis' clock where it is parked, by
	// this machine's otherwise.
	Due time.Time
	// Duplicate means that this message waits already, or was published not longer ago
	// than the parker remembers: one with this ID and the same content. It stays as it
	// is, and Due is that message's.
	Duplicate bool
	// Past means that the instant had passed, so that the message is delivered
	// at once.
	Past bool
}

// Publish sends m, to be delivered when w says, and returns once a server has
// it. While there is no connection, the broker blocks publishers, or a queue has not
// answered for two seconds that gets messages of the same routing key, it waits as long as
// ctx allows, or Config.Timeout where ctx has no deadline. Headers x-delay, x-deliver-at,
// x-opt-delivery-time and x-opt-delivery-delay are left out: w counts.
// A message of an entry beside the default one that takes a tier gets x-delay.
//
// The error wraps ErrInvalid, ErrConflict, ErrCancelled, ErrNotSent, ErrRefused, ErrUnroutable
// or ErrUnconfirmed. Only after ErrUnconfirmed may a server have the message, and
// may it still be on its way out: leave its body and headers alone.
func (p *Producer) Publish(ctx context.Context, m message.Message, w message.When) (Receipt, error) {
	now := time.Now()
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, now.Add(p.config.Timeout))
		defer cancel()
	}
	receipt, err := p.publish(ctx, m, w, now)
	if p.config.Observe != nil {
		p.config.Observe(Observation{Message: m, Receipt: receipt, Err: err, Took: time.Since(now)})
	}
	return receipt, err
}

func (p *Producer) publish(ctx context.Context, m message.Message, w message.When, now time.Time) (Receipt, error) {
	entry, known := p.entries[m.Entry]
	if err := errors.Join(m.Validate(), w.Validate(now), p.wrongUser(&m)); err != nil || !known {
		return Receipt{}, fmt.Errorf("%w: %w", ErrInvalid, errors.Join(err, p.unknown(m.Entry)))
	}
	if err := p.gate.enter(); err != nil {
		return Receipt{}, fmt.Errorf("publish %s: %w: %w", m.ID, ErrNotSent, err)
	}
	defer p.gate.leave()

	m.Headers = withoutRequest(m.Headers)
	receipt, err := p.take(ctx, entry, &m, w, now)
	switch {
	case errors.Is(err, ErrCancelled):
		return receipt, fmt.Errorf("publish %s: %w", m.ID, err)
	case err != nil:
		return Receipt{}, fmt.Errorf("publish %s: %w", m.ID, err)
	}
	return receipt, nil
}

// wrongUser is the fault of a message whose user-id is not the connection's user: the broker would close the
// channel, and with it what else is under way there. What is parked no broker looks at.
func (p *Producer) wrongUser(m *message.Message) error {
	if m.UserID == "" {
		return nil
	}
	uri, err := broker.ParseURI(p.config.AMQPURL)
	switch {
	case err != nil || uri.Username == m.UserID:
		return err
	case uri.Username == "":
		return fmt.Errorf("user-id %q: the user is the one of the client's certificate, which the broker alone knows: name it in the AMQP URL, too, or leave the user-id empty", m.UserID)
	}
	return fmt.Errorf("user-id %q is not the user of the AMQP connection, %q, and RabbitMQ takes no other: leave it empty, or say who it was in a header of your own", m.UserID, uri.Username)
}

// unknown is the fault of a message whose entry is not configured, or nil.
func (p *Producer) unknown(entry string) error {
	if p.config.Topology.HasEntry(entry) {
		return nil
	}
	return fmt.Errorf("entry %q is not configured: add it to the topology's entries, with the type of its ready exchange (entries: [%s=direct]), and apply that", entry, entry)
}

// take is choose, within a span where there are to be any.
func (p *Producer) take(ctx context.Context, entry *routes, m *message.Message, w message.When, now time.Time) (Receipt, error) {
	if p.tracer != nil {
		return p.chooseTraced(ctx, entry, *m, w, now)
	}
	return p.choose(ctx, entry, m, w, now)
}

// choose takes the path that suits w.
func (p *Producer) choose(ctx context.Context, entry *routes, m *message.Message, w message.When, now time.Time) (Receipt, error) {
	if delay, relative := w.Relative(); relative {
		if delay == 0 {
			return p.send(ctx, entry.ready, m, now, now)
		}
		if tier, ok := entry.tiers[delay]; ok && (p.config.Untracked || p.config.Parker == nil) {
			return p.send(ctx, tier, m, now, w.From(now))
		}
	}
	if p.config.Parker != nil {
		return p.park(ctx, entry, m, w, now)
	}
	return p.enter(ctx, entry.inbox, m, w, now)
}

// send publishes m to the exchange of r.
func (p *Producer) send(ctx context.Context, r *route, m *message.Message, now, due time.Time) (Receipt, error) {
	q := r.request()
	r.fill(q, m, now, due)
	err := p.deliver(ctx, q)
	return Receipt{Path: r.path, Due: due}, err
}

// enter publishes m to its entry exchange, as a foreign client would.
func (p *Producer) enter(ctx context.Context, inbox *route, m *message.Message, w message.When, now time.Time) (Receipt, error) {
	q := inbox.request()
	inbox.fill(q, m, now, w.From(now))
	instant, absolute := w.Instant()
	if delay, relative := w.Relative(); relative {
		q.headers[wire.HeaderDelay] = delay.Milliseconds()
	} else {
		q.headers[wire.HeaderDeliverAt] = instant.UnixMilli()
	}
	err := p.deliver(ctx, q)
	return Receipt{Path: inbox.path, Due: w.From(now), Past: absolute && instant.Before(now)}, err
}

// park gives the parker a pooled copy of m: a pointer to m itself would escape, which costs
// an allocation for each message, also for those that are not parked.
func (p *Producer) park(ctx context.Context, entry *routes, m *message.Message, w message.When, now time.Time) (Receipt, error) {
	lent, ok := p.lent.Get().(*message.Message)
	if !ok {
		lent = new(message.Message)
	}
	*lent = *m
	ticket, err := p.config.Parker.Park(ctx, lent, w)
	*lent = message.Message{}
	p.lent.Put(lent)
	switch {
	case errors.Is(err, ErrUnconfirmed):
		return Receipt{}, err
	case err != nil:
		return Receipt{}, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	receipt := Receipt{Path: message.PathParked, Due: ticket.Due}
	switch ticket.Parking {
	case message.Parked:
	case message.ParkedBefore:
		receipt.Duplicate = true
	case message.CancelledBefore:
		return Receipt{Due: ticket.Due}, ErrCancelled
	case message.Conflict:
		return Receipt{}, fmt.Errorf("%w: it is due %s: give each message an ID of its own, or cancel that one",
			ErrConflict, ticket.Due.UTC().Format(time.RFC3339))
	case message.Overdue:
		receipt, err = p.send(ctx, entry.ready, m, now, ticket.Due)
		receipt.Past = true
	default:
		err = fmt.Errorf("%w: the parker's answer %d has no meaning", ErrUnconfirmed, ticket.Parking)
	}
	return receipt, err
}

// fill makes q what is sent of m.
func (r *route) fill(q *request, m *message.Message, now, due time.Time) {
	q.out = broker.Outgoing{
		Exchange: r.exchange, RoutingKey: m.RoutingKey, Mandatory: r.mandatory,
		Publishing: m.PublishingIn(q.headers, message.Journey{Published: now, Due: due, Path: r.path}),
	}
	if r.delayMS > 0 {
		q.headers[wire.HeaderDelay] = r.delayMS
	}
	if m.UserID != "" { // rather than in a header, so that the broker vouches for it
		delete(q.headers, wire.HeaderUserID)
		q.out.Publishing.UserId = m.UserID
	}
}

// withoutRequest returns headers without those that would ask for another delay,
// in the entry exchange or of the broker.
func withoutRequest(headers amqp.Table) amqp.Table {
	copied := false
	for _, name := range [...]string{wire.HeaderDelay, wire.HeaderDeliverAt, wire.HeaderDeliveryTime, wire.HeaderDeliveryDelay} {
		if _, there := headers[name]; !there {
			continue
		}
		if !copied {
			headers, copied = maps.Clone(headers), true
		}
		delete(headers, name)
	}
	return headers
}
