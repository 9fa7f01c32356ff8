// Package wire has the names of headers, and AMQP's encoding of what is in them. What they
// mean is in docs/wire-contract.md.
package wire

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// Headers by which publishers in any language say when; docs/wire-contract.md
// has every detail.
const (
	HeaderDelay     = "x-delay"      // milliseconds from now
	HeaderDeliverAt = "x-deliver-at" // Unix milliseconds
	// The same in the names of RabbitMQ's own delays, on which releases to come act. Messages of
	// the bridge carry these in HeaderAskedTime and HeaderAskedDelay.
	HeaderDeliveryTime  = "x-opt-delivery-time"  // Unix milliseconds
	HeaderDeliveryDelay = "x-opt-delivery-delay" // milliseconds from now
	// HeaderBrokerTimestamp has the Unix milliseconds at which the broker took the message,
	// where it is configured to set it.
	HeaderBrokerTimestamp = "timestamp_in_ms"
)

// Headers in which W3C trace context travels, as in other instrumentations of AMQP. They
// are the publisher's and arrive as they were sent; a producer that traces sets them
// where there are none.
const (
	HeaderTraceparent = "traceparent"
	HeaderTracestate  = "tracestate"
	HeaderBaggage     = "baggage"
)

// InstantLayout is how the bridge writes instants into headers.
const InstantLayout = "2006-01-02T15:04:05.000Z07:00"

// InstantOf returns the instant in a header, or the zero time.
func InstantOf(header any) time.Time {
	text, _ := header.(string)
	t, err := time.Parse(InstantLayout, text)
	if err != nil {
		return time.Time{}
	}
	return t
}

// ReservedPrefix starts the name of every header that the bridge adds.
const ReservedPrefix = "x-delaybridge-"

// Headers that the bridge adds. Instants are RFC 3339 with milliseconds, in
// UTC, so that they read well in the management UI.
const (
	HeaderPublished  = ReservedPrefix + "published"
	HeaderDue        = ReservedPrefix + "due"
	HeaderPath       = ReservedPrefix + "path"
	HeaderExpiration = ReservedPrefix + "expiration"     // the publisher's expiration property
	HeaderUserID     = ReservedPrefix + "user-id"        // the publisher's user-id property
	HeaderPriority   = ReservedPrefix + "priority"       // the publisher's priority property
	HeaderEntry      = ReservedPrefix + "entry"          // by which the message entered; none is the default one
	HeaderVersion    = ReservedPrefix + "version"        // int64: more than 0 once it was rescheduled on its way
	HeaderAskedTime  = ReservedPrefix + "delivery-time"  // the publisher's x-opt-delivery-time
	HeaderAskedDelay = ReservedPrefix + "delivery-delay" // the publisher's x-opt-delivery-delay

	// Of the last span on the way, where the message is traced:
	HeaderStepTraceparent = ReservedPrefix + "traceparent"
	HeaderStepTracestate  = ReservedPrefix + "tracestate"

	// Of a message that is handled again, or is in quarantine:
	HeaderQueue    = ReservedPrefix + "queue"    // whose consumer handled it
	HeaderAttempts = ReservedPrefix + "attempts" // int64: how often, in vain
	HeaderHistory  = ReservedPrefix + "history"  // array of texts: a line for each attempt
	HeaderKey      = ReservedPrefix + "key"      // its routing key, while that is the queue's name
	HeaderCC       = ReservedPrefix + "cc"       // its CC header, meanwhile

	// Of a message in quarantine:
	HeaderError       = ReservedPrefix + "error"       // why
	HeaderStack       = ReservedPrefix + "stack"       // of the handler's panic
	HeaderQuarantined = ReservedPrefix + "quarantined" // since when
)

// What the ID of a message begins with that came to the inbox without one.
const (
	// MadeUpPrefix begins every ID that a bridge has made up.
	MadeUpPrefix = "no-id."
	// MadeUpAgainPrefix begins one where the broker says that it has delivered the message
	// to a bridge before: there may be a copy of it under another ID that was made up.
	MadeUpAgainPrefix = MadeUpPrefix + "redelivered."
)

// Carried returns the name under which the bridge publishes a header: a broker that knows
// x-opt-delivery-time would delay the message once more.
func Carried(name string) string {
	switch name {
	case HeaderDeliveryTime:
		return HeaderAskedTime
	case HeaderDeliveryDelay:
		return HeaderAskedDelay
	}
	return name
}

// ErrEnvelope means that what Redis has of a message cannot be read.
var ErrEnvelope = errors.New("message: not an envelope")

// Limits of a message, which message.Message.Validate enforces.
const (
	// MaxIDBytes is the length of an AMQP short string.
	MaxIDBytes = 255
	// MaxBodyBytes is RabbitMQ's default max_message_size since 4.0.
	MaxBodyBytes = 16 << 20
	// MaxHeaderBytes is what all headers may take on the wire. With the properties
	// they must fit one frame, of 128 KiB by RabbitMQ's default, to which bridge and
	// broker add on the way, and no client reads a larger one.
	MaxHeaderBytes = 120 << 10
)

// Limits of amqp091-go, which neither reads nor closes the connection over what is larger.
const (
	// MaxHeaderDepth is how deep amqp091-go reads nested tables and arrays.
	MaxHeaderDepth = 32
	// MaxHeaderElements is how many entries amqp091-go reads in one table or array.
	MaxHeaderElements = 8192
)

// ExpirationMS writes a per-message TTL the way AMQP wants it: milliseconds in
// decimal.
func ExpirationMS(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// intakeTag follows a bridge's ID in the tag of its consumer of the inbox.
const intakeTag = ": parks these in Redis"

// IntakeTag returns the consumer tag by which a bridge consumes the inbox.
func IntakeTag(bridge string) string { return bridge + intakeTag }

// CommandTag returns the consumer tag by which a bridge consumes commands.
func CommandTag(bridge string) string { return bridge + ": carries these out" }

// BridgeOf returns the ID of the bridge to which a consumer of the inbox belongs, by its
// consumer tag, and false where it is no bridge's.
func BridgeOf(consumerTag string) (id string, ok bool) {
	return strings.CutSuffix(consumerTag, intakeTag)
}

// TTLName writes a TTL the way the management UI is to show it: 1s, 90s as
// 1m30s, 1h, and 1500ms where whole seconds do not do. Two different TTLs of
// whole milliseconds never get the same name.
func TTLName(ttl time.Duration) string {
	if ttl%time.Second != 0 {
		return strconv.FormatInt(ttl.Milliseconds(), 10) + "ms"
	}
	var b strings.Builder
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if n := ttl / unit.size; n > 0 {
			b.WriteString(strconv.FormatInt(int64(n), 10) + unit.name)
			ttl -= n * unit.size
		}
	}
	return b.String()
}

// Paths that a message takes without its publisher being told.
const (
	ReadyPath      = "parked, then ready" // shorter than the smallest tier, or overdue
	RetryPath      = "parked, then retry" // back to the queue whose consumer failed
	ReplayPath     = "replayed"           // from quarantine
	QuarantinePath = "quarantine"         // could not be processed
)

// TierPath is the path of a message whose delay equals a tier, by the tier's TTLName.
func TierPath(ttlName string) string { return "tier " + ttlName }

// LanePath is the path of a message that is promoted into a lane, by the lane's TTLName.
func LanePath(ttlName string) string { return "parked, then lane " + ttlName }
