package store

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
)

// A Record is what Redis keeps of an ID; lua/lib.lua has its layout.
type Record string

// State of a record.
type State int

// The states, as in lua/lib.lua.
const (
	Waiting State = iota
	Cancelled
	Delivered
	Moved
)

// What comes before the envelope: when the message is due, when it was parked, the stamp,
// and the digest of its content; and where the stamp says so, when it was published first.
const (
	digestAt      = 14
	digestLen     = 8
	recordHeader  = digestAt + digestLen
	publishedLen  = 6
	stampAt       = 12
	versions      = 1 << 10
	stampState    = 10 // bits to the right of it
	stampDirect   = 1 << 13
	hasPublished  = 1 << 14
	isUnsettled   = 1 << 15
	recordMaxHead = recordHeader + publishedLen
	keptLen       = 6
	unsettledHead = keptLen + 4 // until when it is kept, and the length of the envelope
)

// A Beginning says what a record begins with. The zero value is that of a message that
// is published now, and goes into a lane.
type Beginning struct {
	As        string // what the message is parked under, see [RetryKey]; "" is its ID
	Version   int
	Direct    bool         // into no lane
	Published time.Time    // zero for now
	Alone     bool         // the message is refused where another one has its ID
	Asked     message.When // what counts as content; zero is when it is to be delivered
	Content   Record       // the digest of its content, where that is known
}

// append begins a record; the digest and the other instants are filled in later.
func (h Beginning) append(b []byte) []byte {
	stamp, published := h.Version%versions, unixMS(h.Published)
	if h.Direct {
		stamp |= stampDirect
	}
	if published > 0 {
		stamp |= hasPublished
	}
	b = append(b, make([]byte, stampAt)...)
	b = binary.BigEndian.AppendUint16(b, uint16(stamp)) //nolint:gosec // 16 bits
	b = append(b, make([]byte, digestLen)...)
	if published > 0 {
		b = append(b, make([]byte, publishedLen)...)
		put48(b[len(b)-publishedLen:], published)
	}
	return b
}

func (r Record) stamp() int {
	return int(r[stampAt])<<8 | int(r[stampAt+1])
}

// Whole reports whether r is no shorter than it says.
func (r Record) Whole() bool {
	return len(r) >= recordHeader && (r.stamp()&hasPublished == 0 || len(r) >= recordMaxHead)
}

// mended returns r, or where it is cut off, r with zeros for what is missing. That has no
// envelope, and so goes to quarantine. Without a whole stamp nothing can be read of it, as
// in lua/claim.lua.
func (r Record) mended() Record {
	switch {
	case r.Whole():
		return r
	case len(r) < digestAt:
		return Record(make([]byte, recordHeader))
	}
	return r + Record(make([]byte, recordMaxHead-min(recordMaxHead, len(r))))
}

// Due is when the message is due, Unix ms.
func (r Record) Due() int64 { return unix48(string(r)) }

// ParkedAt is when the message was parked, planned anew, or came to its end, Unix ms.
func (r Record) ParkedAt() int64 { return unix48(string(r[6:])) }

// Published returns when the message was published, Unix ms, or 0 if that is not known.
func (r Record) Published() int64 {
	if r.stamp()&hasPublished == 0 {
		return r.ParkedAt()
	}
	return unix48(string(r[recordHeader:]))
}

// Version counts how often the message was rescheduled while the broker had a copy.
func (r Record) Version() int { return r.stamp() % versions }

// State is what has become of the message.
func (r Record) State() State { return State(r.stamp() >> stampState & 7) }

// Direct reports whether the message goes into no lane.
func (r Record) Direct() bool { return r.stamp()&stampDirect != 0 }

// Unsettled says whether the message was delivered, and its bridge has not settled it.
func (r Record) Unsettled() bool { return r.stamp()&isUnsettled != 0 }

// Envelope returns what comes after that.
func (r Record) Envelope() []byte {
	envelope, _ := r.split()
	return []byte(envelope)
}

// told returns what is told of the message's delivery.
func (r Record) told() string {
	_, told := r.split()
	return string(told)
}

func (r Record) split() (envelope, told Record) {
	body := r[r.body():]
	switch {
	case r.State() != Delivered:
		return body, ""
	case !r.Unsettled() || len(body) < unsettledHead:
		return "", body
	}
	length, rest := []byte(body[keptLen:unsettledHead]), body[unsettledHead:]
	n := min(len(rest), int(binary.BigEndian.Uint32(length)))
	return rest[:n], rest[n:]
}

func (r Record) body() int {
	if r.stamp()&hasPublished != 0 {
		return recordMaxHead
	}
	return recordHeader
}

// Lead returns the TTL in ms of the lane for which a message is meant that is to be
// promoted at an instant, or 0.
func (r Record) Lead(promoteAt int64, leads []time.Duration) int64 {
	lead := r.Due() - promoteAt
	if !r.Direct() && slices.Contains(leads, time.Duration(lead)*time.Millisecond) {
		return lead
	}
	return 0
}

func unix48(s string) int64 {
	var b [8]byte
	copy(b[2:], s[:6])
	return int64(binary.BigEndian.Uint64(b[:])) //nolint:gosec // 48 bits
}

// notContent returns the headers by which a repetition may differ from the first message:
// those that ask for a delay, of which the request counts, when the broker took it, and
// trace context, which instrumentations make anew for each attempt.
func notContent() [8]string {
	return [...]string{
		wire.HeaderDelay, wire.HeaderDeliverAt, wire.HeaderDeliveryTime, wire.HeaderDeliveryDelay, wire.HeaderBrokerTimestamp,
		wire.HeaderTraceparent, wire.HeaderTracestate, wire.HeaderBaggage,
	}
}

// contentOf returns the digest by which a repetition of a message is known: the beginning of
// a SHA-256 of its envelope, without the headers that are no content, and of what it asks
// for. It belongs to what is stored. envelope is that of m.
//
// A message that has come out before, and was dead-lettered into an entry, carries when it
// was due: each of its rounds is another message.
func contentOf(m *message.Message, w message.When, envelope []byte) (digest [digestLen]byte) {
	for _, name := range notContent() {
		if _, there := m.Headers[name]; there {
			bare := *m
			bare.Headers = maps.Clone(m.Headers)
			for _, name := range notContent() {
				delete(bare.Headers, name)
			}
			envelope = appendEnvelope(nil, &bare, m.ID)
			break
		}
	}
	var asked [17]byte
	delay, relative := w.Relative()
	ms := delay.Milliseconds()
	if relative {
		asked[0] = wantsDelay
	} else {
		instant, _ := w.Instant()
		ms = instant.UnixMilli()
	}
	binary.BigEndian.PutUint64(asked[1:], uint64(ms))
	binary.BigEndian.PutUint64(asked[9:], uint64(m.Journey.Due.UnixMilli()))
	sum := sha256.New()
	sum.Write(asked[:])
	sum.Write(envelope)
	var room [sha256.Size]byte
	copy(digest[:], sum.Sum(room[:0]))
	return digest
}

// contentAsSent returns the digest of a message that has come out of a tier: that which Redis
// would have if the message had been parked.
func contentAsSent(m *message.Message) [digestLen]byte {
	sent := *m
	sent.Journey = message.Journey{}
	return contentOf(&sent, message.After(onItsWay(m)), appendEnvelope(nil, &sent, m.ID))
}

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

// appendEnvelope appends m as it is written to Redis under key, which normally
// is the ID; only another ID is part of the envelope. Layout:
//
//	version (1 byte) | properties present (2 bytes) | routing key | those of the
//	short strings, timestamp, priority, ID and headers that are present | body
//
// in the encodings of AMQP 0-9-1 section 4.2.5, whose types are thereby all
// kept apart. m must be valid.
func appendEnvelope(b []byte, m *message.Message, key string) []byte {
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

// decodeEnvelope reads what [appendEnvelope] wrote under key. The message's body
// is a part of b.
func decodeEnvelope(b []byte, key string) (message.Message, error) {
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

// peekBytes is how much of an envelope [peekEnvelope] needs at most.
const peekBytes = 3 + 256 + 8*256 + 8 + 1 + 256 + 256

// peekEnvelope is decodeEnvelope without headers and body. b may be cut off after
// peekBytes.
func peekEnvelope(b []byte, key string) (message.Message, error) {
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

// Message reads what the record has of the message. The error wraps wire.ErrEnvelope.
func (f *Found) Message() (message.Message, error) { return decodeEnvelope(f.Envelope(), f.ID) }

// Outline is Message without headers and body.
func (f *Found) Outline() (message.Message, error) { return peekEnvelope(f.Envelope(), f.ID) }

// Message reads what the record has of the message. The error wraps wire.ErrEnvelope.
func (p *Parked) Message() (message.Message, error) { return decodeEnvelope(p.Envelope(), p.ID) }
