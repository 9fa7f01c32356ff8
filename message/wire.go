package message

import (
	"cmp"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/wire"
)

// Publishing returns m as it is sent to the broker with journey j: always
// persistent, without what earlier dead-lettering left behind, and with the
// properties in headers that would act, or be refused, on the way:
//   - expiration would end the wait early;
//   - user-id is refused by the broker when another user republishes;
//   - priority would let messages overtake, or block, others inside a tier.
//
// Headers that ask RabbitMQ itself for a delay travel under other names (docs/wire-contract.md).
func (m *Message) Publishing(j Journey) amqp.Publishing {
	return m.PublishingIn(make(amqp.Table, len(m.Headers)+4), j)
}

// PublishingIn is Publishing for those who publish much: the headers go into a
// table that may be used again, once what was in it before is written.
func (m *Message) PublishingIn(headers amqp.Table, j Journey) amqp.Publishing {
	path := headers[wire.HeaderPath]
	clear(headers)
	for name, value := range m.Headers {
		if !leftByBroker(name) {
			headers[wire.Carried(name)] = widened(value)
		}
	}
	setInstants(headers, j)
	if before, ok := path.(string); ok && before == string(j.Path) {
		headers[wire.HeaderPath] = path // which costs no allocation
	} else if j.Path != "" {
		headers[wire.HeaderPath] = string(j.Path)
	}
	if m.Expiration != "" {
		headers[wire.HeaderExpiration] = m.Expiration
	}
	if m.UserID != "" {
		headers[wire.HeaderUserID] = m.UserID
	}
	if m.Priority != 0 {
		headers[wire.HeaderPriority] = m.Priority
	}
	if m.Entry != "" {
		headers[wire.HeaderEntry] = m.Entry
	}
	if j.Version != 0 {
		headers[wire.HeaderVersion] = int64(j.Version)
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

// FromDelivery returns the message of a delivery as its publisher sent it, whether Go or foreign: of
// its headers whose names are reserved only those count in which expiration, priority and RabbitMQ's own
// delay travel, as a publisher may set these anyway. So Journey is empty. What may be read of a journey tells
// [github.com/delaybridge/delaybridge/topology.Topology.Message]. Body is not copied.
func FromDelivery(d *amqp.Delivery) Message {
	m := sent(d)
	m.Expiration, _ = short(d.Headers[wire.HeaderExpiration])
	m.Expiration = cmp.Or(m.Expiration, d.Expiration, originalExpiration(d.Headers))
	return m
}

// FromBridge is FromDelivery for a delivery of which it is certain that the bridge, or who may do what
// it does, has published it: its reserved headers count.
func FromBridge(d *amqp.Delivery) Message {
	m := sent(d)
	for name, value := range d.Headers {
		if strings.HasPrefix(name, wire.ReservedPrefix) {
			m.restore(name, value)
		}
	}
	m.Journey.recall(d.Headers)
	m.takeBack(d.Headers)
	return m
}

// sent is what all messages have, and their priority.
func sent(d *amqp.Delivery) Message {
	m := Message{
		ID: d.MessageId, RoutingKey: d.RoutingKey, Body: d.Body,
		ContentType: d.ContentType, ContentEncoding: d.ContentEncoding,
		CorrelationID: d.CorrelationId, ReplyTo: d.ReplyTo, Type: d.Type, AppID: d.AppId,
		Timestamp: d.Timestamp, Expiration: d.Expiration, UserID: d.UserId, Priority: d.Priority,
	}
	for name, value := range d.Headers {
		if leftByBroker(name) || strings.HasPrefix(name, wire.ReservedPrefix) {
			continue
		}
		if m.Headers == nil {
			m.Headers = make(amqp.Table, len(d.Headers))
		}
		m.Headers[name] = value
	}
	m.takeBackAsked(d.Headers, wire.HeaderDeliveryTime)
	m.takeBackAsked(d.Headers, wire.HeaderDeliveryDelay)
	if priority, ok := d.Headers[wire.HeaderPriority].(byte); ok {
		m.Priority = priority
	}
	return m
}

// takeBackAsked gives a header back its name. One that has that name is the publisher's latest word.
func (m *Message) takeBackAsked(headers amqp.Table, name string) {
	value, carried := headers[wire.Carried(name)]
	if _, anew := headers[name]; anew || !carried {
		return
	}
	if m.Headers == nil {
		m.Headers = amqp.Table{}
	}
	m.Headers[name] = value
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

// restore takes one of the bridge's own headers back into m.
func (m *Message) restore(name string, value any) {
	if version, ok := value.(int64); ok && name == wire.HeaderVersion {
		m.Journey.Version = int(version)
	}
	m.Journey.Step.Restore(name, value)
	text, ok := short(value)
	if !ok {
		return
	}
	switch name {
	case wire.HeaderPublished:
		m.Journey.Published = wire.InstantOf(value)
	case wire.HeaderDue:
		m.Journey.Due = wire.InstantOf(value)
	case wire.HeaderPath:
		m.Journey.Path = Path(text)
	case wire.HeaderExpiration:
		m.Expiration = text
	case wire.HeaderUserID:
		m.UserID = text
	case wire.HeaderEntry:
		m.Entry = text
	}
}

// short returns a header that a property or an envelope can hold.
func short(value any) (text string, ok bool) {
	text, ok = value.(string)
	if len(text) > 255 {
		return "", false
	}
	return text, ok
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
	var room [2 * len(wire.InstantLayout)]byte
	b := room[:0]
	if !j.Published.IsZero() {
		b = j.Published.UTC().AppendFormat(b, wire.InstantLayout)
	}
	published := len(b)
	if !j.Due.IsZero() {
		b = j.Due.UTC().AppendFormat(b, wire.InstantLayout)
	}
	text := string(b)
	if published > 0 {
		headers[wire.HeaderPublished] = text[:published]
	}
	if published < len(text) {
		headers[wire.HeaderDue] = text[published:]
	}
}
