package promote

import (
	"errors"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
	"github.com/delaybridge/delaybridge/topology"
)

// ahead is how long before it is due a message is claimed that goes straight to
// the ready exchange. It waits for the rest here, so that claims can be gathered
// (claimTick) and a slow disk of Redis does not make it late.
const ahead = 50 * time.Millisecond

// plan is where a claimed message goes.
type plan struct {
	lane      time.Duration // TTL of the lane; 0 for the ready exchange
	left      time.Duration // until due: to spend in the lane, or before publishing
	postponed int64         // instead of all that: promote at this instant, Unix ms
}

// planFor decides where a message goes that is due at due, was to be promoted
// at promoteAt, and has been claimed by now, all in Unix ms.
//
// The lane is the one the message was meant for, however late it is: the lane's
// messages enter in due order, so it does not wait for those before it. In a
// shorter lane it could meet messages that entered on time and are due later.
// Only a message whose lane no longer exists, because the tiers have changed or
// it could not be published at its time, gets the next instant that suits a
// lane there is.
func planFor(leads []time.Duration, due, promoteAt, now int64) plan {
	left := time.Duration(due-now) * time.Millisecond
	if left <= 0 {
		return plan{}
	}
	meant := time.Duration(due-promoteAt) * time.Millisecond
	if slices.Contains(leads, meant) {
		return plan{lane: meant, left: left}
	}
	if left <= ahead {
		return plan{left: left}
	}
	for _, lead := range slices.Backward(leads) {
		if lead <= left {
			return plan{postponed: due - lead.Milliseconds()}
		}
	}
	return plan{postponed: due - ahead.Milliseconds()}
}

// outgoing is the message as plan p publishes it, with headers for its headers.
// An undecodable envelope goes to quarantine as it is, and a retry back to its queue. The error is
// store.ErrNewer: this release cannot read the message, and a later one can.
func outgoing(t *topology.Topology, shard int, m *store.Parked, p plan, headers amqp.Table) (broker.Outgoing, message.Path, error) {
	decoded, err := m.Message()
	switch {
	case errors.Is(err, store.ErrNewer):
		return broker.Outgoing{}, "", err
	case err != nil:
		out, path := quarantined(t, m, err)
		return out, path, nil
	}
	journey := message.Journey{
		Published: store.InstantOf(m.Published()), Due: time.UnixMilli(m.Due()), Path: wire.ReadyPath, Version: m.Version(),
	}
	// Both exchanges return a message only where their alternate is missing.
	out := broker.Outgoing{Exchange: t.ReadyExchangeOf(decoded.Entry), RoutingKey: decoded.RoutingKey, Mandatory: true}
	if queue, ok := decoded.RetryQueue(); ok {
		out.Exchange, out.RoutingKey = t.RetryExchange(), queue
		journey.Published, journey.Path = time.Time{}, wire.RetryPath // published is what its headers say
		out.Publishing = decoded.PublishingIn(headers, journey)
		return out, journey.Path, nil
	}
	if p.lane > 0 {
		journey.Path = message.Path(wire.LanePath(wire.TTLName(p.lane)))
		out.Exchange = t.LaneOf(decoded.Entry, p.lane, shard)
	}
	out.Publishing = decoded.PublishingIn(headers, journey)
	if p.lane > 0 {
		out.Publishing.Expiration = wire.ExpirationMS(p.left)
	}
	return out, journey.Path, nil
}

// quarantined is a message that cannot go where it belongs, as it is stored: what is wrong
// with its headers does no harm there.
func quarantined(t *topology.Topology, m *store.Parked, reason error) (broker.Outgoing, message.Path) {
	return broker.Outgoing{
		Exchange: t.Quarantine(), RoutingKey: m.ID, Mandatory: true,
		Publishing: undecodable(m.ID, []byte(m.Record), reason),
	}, wire.QuarantinePath
}

// undecodable returns what goes to quarantine in place of a stored message that
// cannot be read: the raw bytes, and the reason.
func undecodable(id string, raw []byte, reason error) amqp.Publishing {
	return amqp.Publishing{
		DeliveryMode: amqp.Persistent, MessageId: id, ContentType: "application/octet-stream", Body: raw,
		Headers: amqp.Table{
			wire.HeaderError: reason.Error(), wire.HeaderPath: wire.QuarantinePath,
			wire.HeaderQuarantined: time.Now().UTC().Format(time.RFC3339),
		},
	}
}
