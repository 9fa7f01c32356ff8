package format

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
)

const (
	envelopeVersion = 1
	// latestVersion is the last one that is taken for a later release's; what is beyond is damaged.
	latestVersion = 15
)

// ErrNewer means that what Redis has of a message was written by a later release than this one. It comes with
// wire.ErrEnvelope.
var ErrNewer = errors.New("written by a later release")

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
func AppendEnvelope(b []byte, m *message.Message, key string) []byte {
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
	texts := shortStrings(m)
	for _, s := range texts {
		if *s.value != "" {
			present |= s.bit
		}
	}
	b = append(b, envelopeVersion)
	b = binary.BigEndian.AppendUint16(b, uint16(present))
	b = wire.AppendShortString(b, m.RoutingKey)
	for _, s := range texts {
		if present&s.bit != 0 {
			b = wire.AppendShortString(b, *s.value)
		}
	}
	if present&hasTimestamp != 0 {
		b = binary.BigEndian.AppendUint64(b, uint64(m.Timestamp.Unix())) //nolint:gosec // two's complement on purpose
	}
	if present&hasPriority != 0 {
		b = append(b, m.Priority)
	}
	if present&hasID != 0 {
		b = wire.AppendShortString(b, m.ID)
	}
	if present&hasEntry != 0 {
		b = wire.AppendShortString(b, m.Entry)
	}
	if present&hasHeaders != 0 {
		b = wire.AppendTable(b, m.Headers)
	}
	return append(b, m.Body...)
}

// DecodeEnvelope reads what [AppendEnvelope] wrote under key. The message's body
// is a part of b.
func DecodeEnvelope(b []byte, key string) (message.Message, error) {
	r := wire.Reader{Rest: b}
	m, present, err := decodeProperties(&r, key)
	if err != nil {
		return message.Message{}, err
	}
	if present&hasHeaders != 0 {
		m.Headers = r.Table(0)
	}
	if r.Err != nil {
		return message.Message{}, fmt.Errorf("%w: %w", wire.ErrEnvelope, r.Err)
	}
	m.Body = r.Rest
	return m, nil
}

// PeekBytes is how much of an envelope [PeekEnvelope] needs at most.
const PeekBytes = 3 + 256 + 8*256 + 8 + 1 + 256 + 256

// PeekEnvelope is DecodeEnvelope without headers and body. b may be cut off after
// peekBytes.
func PeekEnvelope(b []byte, key string) (message.Message, error) {
	m, _, err := decodeProperties(&wire.Reader{Rest: b}, key)
	return m, err
}

// decodeProperties reads what comes before the headers, and says what is present.
func decodeProperties(r *wire.Reader, key string) (m message.Message, present int, err error) {
	switch version := r.Octet(); {
	case r.Err != nil || version == envelopeVersion:
	case version > envelopeVersion && version <= latestVersion:
		return message.Message{}, 0, fmt.Errorf("%w: %w: it has version %d, and this release reads version %d", wire.ErrEnvelope, ErrNewer, version, envelopeVersion)
	default:
		return message.Message{}, 0, fmt.Errorf("%w: no release has written version %d", wire.ErrEnvelope, version)
	}
	present = int(r.Uint16())
	if unknown := present &^ knownProperties; unknown != 0 {
		return message.Message{}, 0, fmt.Errorf("%w: %w: it has properties %#x that this release does not know", wire.ErrEnvelope, ErrNewer, unknown)
	}
	m = message.Message{ID: key}
	m.RoutingKey = r.ShortString()
	for _, s := range shortStrings(&m) {
		if present&s.bit != 0 {
			*s.value = r.ShortString()
		}
	}
	if present&hasTimestamp != 0 {
		m.Timestamp = time.Unix(r.Int64(), 0)
	}
	if present&hasPriority != 0 {
		m.Priority = r.Octet()
	}
	if present&hasID != 0 {
		m.ID = r.ShortString()
	}
	if present&hasEntry != 0 {
		m.Entry = r.ShortString()
	}
	if r.Err != nil {
		return message.Message{}, 0, fmt.Errorf("%w: %w", wire.ErrEnvelope, r.Err)
	}
	return m, present, nil
}

type shortString struct {
	bit   int
	value *string
}

func shortStrings(m *message.Message) [8]shortString {
	return [...]shortString{
		{hasContentType, &m.ContentType}, {hasContentEncoding, &m.ContentEncoding},
		{hasCorrelationID, &m.CorrelationID}, {hasReplyTo, &m.ReplyTo},
		{hasType, &m.Type}, {hasAppID, &m.AppID},
		{hasExpiration, &m.Expiration}, {hasUserID, &m.UserID},
	}
}
