package message

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// ErrEnvelope is wrapped by every error of [DecodeEnvelope].
var ErrEnvelope = errors.New("message: not an envelope")

const envelopeVersion = 1

// Properties that are present, one bit each, in the order in which they are
// written. The bits are part of the stored format: never reuse one.
const (
	hasHeaders = 1 << iota
	hasContentType
	hasContentEncoding
	hasCorrelationID
	hasReplyTo
	hasType
	hasAppID
	hasTimestamp
	hasExpiration
	hasUserID
	hasPriority
	hasID
	hasEntry
	knownProperties = 1<<iota - 1
)

// AppendEnvelope appends m as it is written to Redis under key, which normally
// is the ID; only another ID is part of the envelope. Layout:
//
//	version (1 byte) | properties present (2 bytes) | routing key | those of the
//	short strings, timestamp, priority, ID and headers that are present | body
//
// in the encodings of AMQP 0-9-1 section 4.2.5, whose types are thereby all
// kept apart. m must be valid.
func AppendEnvelope(b []byte, m *Message, key string) []byte {
	present := 0
	for _, p := range []struct {
		bit int
		is  bool
	}{
		{hasHeaders, len(m.Headers) > 0}, {hasTimestamp, !m.Timestamp.IsZero()}, {hasPriority, m.Priority != 0},
		{hasID, m.ID != key}, {hasEntry, m.Entry != ""},
	} {
		if p.is {
			present |= p.bit
		}
	}
	texts := m.shortStrings()
	for _, s := range texts {
		if *s.value != "" {
			present |= s.bit
		}
	}
	b = append(b, envelopeVersion)
	b = binary.BigEndian.AppendUint16(b, uint16(present))
	b = appendShortString(b, m.RoutingKey)
	for _, s := range texts {
		if present&s.bit != 0 {
			b = appendShortString(b, *s.value)
		}
	}
	if present&hasTimestamp != 0 {
		b = binary.BigEndian.AppendUint64(b, uint64(m.Timestamp.Unix())) //nolint:gosec // two's complement on purpose
	}
	if present&hasPriority != 0 {
		b = append(b, m.Priority)
	}
	if present&hasID != 0 {
		b = appendShortString(b, m.ID)
	}
	if present&hasEntry != 0 {
		b = appendShortString(b, m.Entry)
	}
	if present&hasHeaders != 0 {
		b = appendTable(b, m.Headers)
	}
	return append(b, m.Body...)
}

// DecodeEnvelope reads what [AppendEnvelope] wrote under key. The message's body
// is a part of b.
func DecodeEnvelope(b []byte, key string) (Message, error) {
	r := reader{rest: b}
	m, present, err := decodeProperties(&r, key)
	if err != nil {
		return Message{}, err
	}
	if present&hasHeaders != 0 {
		m.Headers = r.table(0)
	}
	if r.err != nil {
		return Message{}, fmt.Errorf("%w: %w", ErrEnvelope, r.err)
	}
	m.Body = r.rest
	return m, nil
}

// PeekBytes is how much of an envelope [PeekEnvelope] needs at most.
const PeekBytes = 3 + 256 + 8*256 + 8 + 1 + 256 + 256

// PeekEnvelope is DecodeEnvelope without headers and body. b may be cut off after
// PeekBytes.
func PeekEnvelope(b []byte, key string) (Message, error) {
	m, _, err := decodeProperties(&reader{rest: b}, key)
	return m, err
}

// decodeProperties reads what comes before the headers, and says what is present.
func decodeProperties(r *reader, key string) (m Message, present int, err error) {
	if version := r.octet(); r.err == nil && version != envelopeVersion {
		return Message{}, 0, fmt.Errorf("%w: version %d was written by another release; this one reads version %d", ErrEnvelope, version, envelopeVersion)
	}
	present = int(r.uint16())
	if unknown := present &^ knownProperties; unknown != 0 {
		return Message{}, 0, fmt.Errorf("%w: unknown properties %#x were written by a later release", ErrEnvelope, unknown)
	}
	m = Message{ID: key}
	m.RoutingKey = r.shortString()
	for _, s := range m.shortStrings() {
		if present&s.bit != 0 {
			*s.value = r.shortString()
		}
	}
	if present&hasTimestamp != 0 {
		m.Timestamp = time.Unix(r.int64(), 0)
	}
	if present&hasPriority != 0 {
		m.Priority = r.octet()
	}
	if present&hasID != 0 {
		m.ID = r.shortString()
	}
	if present&hasEntry != 0 {
		m.Entry = r.shortString()
	}
	if r.err != nil {
		return Message{}, 0, fmt.Errorf("%w: %w", ErrEnvelope, r.err)
	}
	return m, present, nil
}

type shortString struct {
	bit   int
	value *string
}

func (m *Message) shortStrings() [8]shortString {
	return [...]shortString{
		{hasContentType, &m.ContentType}, {hasContentEncoding, &m.ContentEncoding},
		{hasCorrelationID, &m.CorrelationID}, {hasReplyTo, &m.ReplyTo},
		{hasType, &m.Type}, {hasAppID, &m.AppID},
		{hasExpiration, &m.Expiration}, {hasUserID, &m.UserID},
	}
}
