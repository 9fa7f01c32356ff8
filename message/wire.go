package message

import (
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Headers by which publishers in any language say when; docs/wire-contract.md
// has every detail.
const (
	HeaderDelay     = "x-delay"      // milliseconds from now
	HeaderDeliverAt = "x-deliver-at" // Unix milliseconds
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

// ReservedPrefix starts the name of every header that the bridge adds.
const ReservedPrefix = "x-delaybridge-"

// Headers that the bridge adds. Instants are RFC 3339 with milliseconds, in
// UTC, so that they read well in the management UI.
const (
	HeaderPublished  = ReservedPrefix + "published"
	HeaderDue        = ReservedPrefix + "due"
	HeaderPath       = ReservedPrefix + "path"
	HeaderExpiration = ReservedPrefix + "expiration" // the publisher's expiration property
	HeaderUserID     = ReservedPrefix + "user-id"    // the publisher's user-id property
	HeaderPriority   = ReservedPrefix + "priority"   // the publisher's priority property
	HeaderEntry      = ReservedPrefix + "entry"      // by which the message entered; none is the default one
	HeaderVersion    = ReservedPrefix + "version"    // int64: more than 0 once it was rescheduled on its way

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

const instantLayout = "2006-01-02T15:04:05.000Z07:00"

// Publishing returns m as it is sent to the broker with journey j: always
// persistent, without what earlier dead-lettering left behind, and with the
// properties in headers that would act, or be refused, on the way:
//   - expiration would end the wait early;
//   - user-id is refused by the broker when another user republishes;
//   - priority would let messages overtake, or block, others inside a tier.
func (m *Message) Publishing(j Journey) amqp.Publishing {
	return m.PublishingIn(make(amqp.Table, len(m.Headers)+4), j)
}

// PublishingIn is Publishing for those who publish much: the headers go into a
// table that may be used again, once what was in it before is written.
func (m *Message) PublishingIn(headers amqp.Table, j Journey) amqp.Publishing {
	path := headers[HeaderPath]
	clear(headers)
	for name, value := range m.Headers {
		if !leftByBroker(name) {
			headers[name] = widened(value)
		}
	}
	setInstants(headers, j)
	if before, ok := path.(string); ok && before == string(j.Path) {
		headers[HeaderPath] = path // which costs no allocation
	} else if j.Path != "" {
		headers[HeaderPath] = string(j.Path)
	}
	if m.Expiration != "" {
		headers[HeaderExpiration] = m.Expiration
	}
	if m.UserID != "" {
		headers[HeaderUserID] = m.UserID
	}
	if m.Priority != 0 {
		headers[HeaderPriority] = m.Priority
	}
	if m.Entry != "" {
		headers[HeaderEntry] = m.Entry
	}
	if j.Version != 0 {
		headers[HeaderVersion] = int64(j.Version)
	}
	j.Step.Write(headers)
	if j.Queue != "" {
		j.tell(headers)
	}
	return amqp.Publishing{
		Headers:         headers,
		ContentType:     m.ContentType,
		ContentEncoding: m.ContentEncoding,
		DeliveryMode:    amqp.Persistent,
		CorrelationId:   m.CorrelationID,
		ReplyTo:         m.ReplyTo,
		MessageId:       m.ID,
		Timestamp:       m.Timestamp,
		Type:            m.Type,
		AppId:           m.AppID,
		Body:            m.Body,
	}
}

// Undecodable returns what goes to quarantine in place of a stored message that
// cannot be read: the raw bytes, and the reason.
func Undecodable(id string, raw []byte, reason error) amqp.Publishing {
	return amqp.Publishing{
		DeliveryMode: amqp.Persistent, MessageId: id, ContentType: "application/octet-stream", Body: raw,
		Headers: amqp.Table{HeaderError: reason.Error(), HeaderPath: string(PathQuarantine)},
	}
}

// FromDelivery returns the message of a delivery as its publisher sent it. It
// accepts messages that never met the bridge. Body is not copied.
func FromDelivery(d *amqp.Delivery) Message {
	m := Message{
		ID: d.MessageId, RoutingKey: d.RoutingKey, Body: d.Body,
		ContentType: d.ContentType, ContentEncoding: d.ContentEncoding,
		CorrelationID: d.CorrelationId, ReplyTo: d.ReplyTo, Type: d.Type, AppID: d.AppId,
		Timestamp: d.Timestamp, Expiration: d.Expiration, UserID: d.UserId, Priority: d.Priority,
	}
	for name, value := range d.Headers {
		switch {
		case leftByBroker(name):
		case strings.HasPrefix(name, ReservedPrefix):
			m.restore(name, value)
		default:
			if m.Headers == nil {
				m.Headers = make(amqp.Table, len(d.Headers))
			}
			m.Headers[name] = value
		}
	}
	if _, ours := d.Headers[HeaderPath]; !ours && m.Expiration == "" {
		m.Expiration = originalExpiration(d.Headers)
	}
	m.Journey.recall(d.Headers)
	m.takeBack(d.Headers)
	return m
}

// originalExpiration is what a message was published with that waited in a tier
// without any bridge: the broker takes the property off and notes it down. In a lane
// it is the bridge's own.
func originalExpiration(headers amqp.Table) string {
	deaths, _ := headers["x-death"].([]any)
	if len(deaths) == 0 {
		return ""
	}
	first, _ := deaths[len(deaths)-1].(amqp.Table) // the latest comes first
	text, _ := first["original-expiration"].(string)
	return text
}

// restore takes one of the bridge's own headers back into m. Another type than
// the bridge writes, or a longer text, is a foreign client's doing and is dropped.
func (m *Message) restore(name string, value any) {
	if priority, ok := value.(byte); ok && name == HeaderPriority {
		m.Priority = priority
	}
	if version, ok := value.(int64); ok && name == HeaderVersion {
		m.Journey.Version = int(version)
	}
	m.Journey.Step.restore(name, value)
	text, ok := value.(string)
	if !ok || len(text) > 255 { // which neither a property nor an envelope can hold
		return
	}
	switch name {
	case HeaderPublished:
		m.Journey.Published = parseInstant(text)
	case HeaderDue:
		m.Journey.Due = parseInstant(text)
	case HeaderPath:
		m.Journey.Path = Path(text)
	case HeaderExpiration:
		m.Expiration = text
	case HeaderUserID:
		m.UserID = text
	case HeaderEntry:
		m.Entry = text
	}
}

// leftByBroker reports whether the broker adds this header when it dead-letters
// or redelivers a message (x-acquired-count since 4.3). One that is republished
// with x-death is dropped by brokers up to 3.13 as a cycle.
func leftByBroker(name string) bool {
	return name == "x-death" || name == "x-delivery-count" || name == "x-acquired-count" ||
		strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
}

// widened replaces int by int64, at any depth: amqp091-go sends an int as 32
// bits and so turns large values into others.
func widened(value any) any {
	switch v := value.(type) {
	case int:
		return int64(v)
	case amqp.Table:
		wide := make(amqp.Table, len(v))
		for name, element := range v {
			wide[name] = widened(element)
		}
		return wide
	case []any:
		wide := make([]any, len(v))
		for i, element := range v {
			wide[i] = widened(element)
		}
		return wide
	}
	return value
}

// setInstants writes both instants of a journey into one string.
func setInstants(headers amqp.Table, j Journey) {
	var room [2 * len(instantLayout)]byte
	b := room[:0]
	if !j.Published.IsZero() {
		b = j.Published.UTC().AppendFormat(b, instantLayout)
	}
	published := len(b)
	if !j.Due.IsZero() {
		b = j.Due.UTC().AppendFormat(b, instantLayout)
	}
	text := string(b)
	if published > 0 {
		headers[HeaderPublished] = text[:published]
	}
	if published < len(text) {
		headers[HeaderDue] = text[published:]
	}
}

func parseInstant(text string) time.Time {
	t, err := time.Parse(instantLayout, text)
	if err != nil {
		return time.Time{}
	}
	return t
}

// ExpirationMS writes a per-message TTL the way AMQP wants it: milliseconds in
// decimal.
func ExpirationMS(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
