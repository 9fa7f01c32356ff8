// Package message is the envelope and the wire contract of the delay bridge:
// what a message consists of, when it is to be delivered, how it looks to AMQP
// clients in any language, and how it is written down while it waits in Redis.
//
// A [Message] is published with a [When]. Everything else about it arrives at
// the consumer as it was sent: body, properties and headers, whichever path the
// message took. Four properties cannot act on the way and are carried in
// headers instead (see docs/wire-contract.md); [FromDelivery] puts them back.
package message

import (
	"errors"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/wire"
)

// maxRoutingKeyBytes is the length of an AMQP short string.
const maxRoutingKeyBytes = 255

// Message is one message, as its publisher means it and its consumer gets it.
type Message struct {
	// ID identifies the message to cancel, look-up and duplicate detection; it
	// is the AMQP property message-id. Required, at most 255 bytes.
	ID string
	// Entry is the name of the entry exchange that the message is published to,
	// and so of the ready exchange it comes out of; "" is the default one.
	Entry string
	// RoutingKey is what consumers bind by; only with an Entry may it be empty.
	// At most 255 bytes.
	RoutingKey string
	// Body is at most 16 MiB, RabbitMQ's default limit since 4.0.
	Body []byte
	// Headers hold the types that amqp.Table allows, at most 120 KiB. An int travels as int64.
	// Names that start with x-delaybridge- belong to the bridge.
	Headers amqp.Table

	ContentType     string
	ContentEncoding string
	CorrelationID   string
	ReplyTo         string
	Type            string
	AppID           string
	Timestamp       time.Time // whole seconds on the wire; zero means none

	// Expiration, UserID and Priority are carried to the consumer, but have no
	// effect on the way.
	Expiration string
	UserID     string
	Priority   uint8

	// Journey is set on delivered messages and ignored when publishing.
	Journey Journey
}

// Journey is what the bridge knows of a delivered message's way. Fields are
// zero where the message came through the broker alone, from a foreign client.
type Journey struct {
	Published time.Time // for the first time
	Due       time.Time // for this attempt
	Path      Path
	// Version tells a message that was rescheduled on its way from the copy with the
	// old due time; 0 is the first one.
	Version int

	// Queue is the one whose consumer has handled the message before: this one,
	// or for a message in quarantine the one it comes from. Empty before the first
	// attempt has failed, with the two below.
	Queue string
	// Attempts is how often the message was handled before, in vain.
	Attempts int
	// History has a line for each of the last 20 of them: when in RFC 3339,
	// in which queue, and the beginning of the error.
	History []string

	// Step is the last span on the way, where the message is traced and a bridge, or the
	// consumer that handled it before, has one.
	Step wire.Span
}

// Path says in words, for people, which way a message takes, such as "tier 30m" or
// "parked, then lane 1m". Of what was parked "parked, then ready" went into no lane, since it was shorter than
// the smallest tier, or overdue; "parked, then retry" is tried again, and "replayed" comes from quarantine.
type Path string

// The paths that its publisher is told of a message that goes into no tier.
const (
	PathDirect Path = "direct"              // due at once: straight to the ready exchange
	PathParked Path = "parked"              // waiting in Redis
	PathInbox  Path = "inbox, to be parked" // through the entry exchange
)

// Validate reports every fault of m at once.
func (m *Message) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("message: "+format, args...)) }
	switch n := len(m.ID); {
	case n == 0:
		fault("ID is empty: every message needs one, so that a retry is recognised")
	case n > wire.MaxIDBytes:
		fault("ID of %d bytes is too long: AMQP allows %d (it starts with %.40q)", n, wire.MaxIDBytes, m.ID)
	}
	switch n := len(m.RoutingKey); {
	case n == 0 && m.Entry == "": // a fanout or headers exchange needs none
		fault("routing key is empty: consumers bind their queues by it")
	case n > maxRoutingKeyBytes:
		fault("routing key of %d bytes is too long: AMQP allows %d (it starts with %.40q)", n, maxRoutingKeyBytes, m.RoutingKey)
	}
	if n := len(m.Body); n > wire.MaxBodyBytes {
		fault("body of %d bytes is too large: the limit is %d; store it elsewhere and send a reference", n, wire.MaxBodyBytes)
	}
	for _, p := range []struct{ name, value string }{
		{"content type", m.ContentType}, {"content encoding", m.ContentEncoding},
		{"correlation ID", m.CorrelationID}, {"reply-to", m.ReplyTo}, {"type", m.Type},
		{"app ID", m.AppID}, {"user ID", m.UserID}, {"expiration", m.Expiration},
		{"entry", m.Entry},
	} {
		if len(p.value) > 255 {
			fault("%s of %d bytes is too long: AMQP allows 255", p.name, len(p.value))
		}
	}
	for name := range m.Headers {
		if strings.HasPrefix(name, wire.ReservedPrefix) {
			fault("header %q: names that start with %q belong to the bridge", name, wire.ReservedPrefix)
		}
	}
	if _, err := wire.Group(m.Headers); err != nil {
		fault("%w", err)
	}
	if err := validateTable(m.Headers, 0); err != nil {
		fault("headers: %w", err)
	} else if n := wire.TableBytes(m.Headers); n > wire.MaxHeaderBytes {
		fault("headers of %d bytes are too large: the limit is %d; send large values in the body", n, wire.MaxHeaderBytes)
	}
	return errors.Join(faults...)
}

func validateTable(table amqp.Table, depth int) error {
	if depth > wire.MaxHeaderDepth {
		return fmt.Errorf("nested deeper than %d", wire.MaxHeaderDepth)
	}
	if len(table) > wire.MaxHeaderElements {
		return fmt.Errorf("%d entries in one table, more than %d", len(table), wire.MaxHeaderElements)
	}
	for name, value := range table {
		if len(name) > 255 {
			return fmt.Errorf("name of %d bytes is too long (it starts with %.40q): AMQP allows 255", len(name), name)
		}
		if err := validateValue(value, depth); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
	}
	return nil
}

func validateValue(value any, depth int) error {
	switch v := value.(type) {
	case nil, bool, byte, int8, int16, uint16, int, int32, uint32, int64,
		float32, float64, string, []byte, time.Time, amqp.Decimal:
		return nil
	case amqp.Table:
		return validateTable(v, depth+1)
	case []any:
		if depth+1 > wire.MaxHeaderDepth {
			return fmt.Errorf("nested deeper than %d", wire.MaxHeaderDepth)
		}
		if len(v) > wire.MaxHeaderElements {
			return fmt.Errorf("%d elements in one array, more than %d", len(v), wire.MaxHeaderElements)
		}
		for i, element := range v {
			if err := validateValue(element, depth+1); err != nil {
				return fmt.Errorf("[%d]: %w", i, err)
			}
		}
		return nil
	default:
		return fmt.Errorf("AMQP has no type for a Go %T", value)
	}
}
