// Package format is how messages are written in Redis: the names of keys, the records and
// the envelopes. lua/lib.lua has the same.
package format

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
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
	DigestAt      = 14
	DigestLen     = 8
	RecordHeader  = DigestAt + DigestLen
	PublishedLen  = 6
	StampAt       = 12
	versions      = 1 << 10
	stampState    = 10 // bits to the right of it
	stampDirect   = 1 << 13
	hasPublished  = 1 << 14
	isUnsettled   = 1 << 15
	RecordMaxHead = RecordHeader + PublishedLen
	keptLen       = 6
	unsettledHead = keptLen + 4 // until when it is kept, and the length of the envelope
)

// A Beginning says what a record begins with. The zero value is that of a message that
// is published now, and goes into a lane.
type Beginning struct {
	As        string // what the message is parked under, see store.RetryKey; "" is its ID
	Version   int
	Direct    bool         // into no lane
	Published time.Time    // zero for now
	Alone     bool         // the message is refused where another one has its ID
	Asked     message.When // what counts as content; zero is when it is to be delivered
	Content   Record       // the digest of its content, where that is known
}

// Append begins a record; the digest and the other instants are filled in later.
func (h Beginning) Append(b []byte) []byte {
	stamp, published := h.Version%versions, UnixMS(h.Published)
	if h.Direct {
		stamp |= stampDirect
	}
	if published > 0 {
		stamp |= hasPublished
	}
	b = append(b, make([]byte, StampAt)...)
	b = binary.BigEndian.AppendUint16(b, uint16(stamp)) //nolint:gosec // 16 bits
	b = append(b, make([]byte, DigestLen)...)
	if published > 0 {
		b = append(b, make([]byte, PublishedLen)...)
		Put48(b[len(b)-PublishedLen:], published)
	}
	return b
}

func (r Record) stamp() int {
	return int(r[StampAt])<<8 | int(r[StampAt+1])
}

// Whole reports whether r is no shorter than it says.
func (r Record) Whole() bool {
	return len(r) >= RecordHeader && (r.stamp()&hasPublished == 0 || len(r) >= RecordMaxHead)
}

// Mended returns r, or where it is cut off, r with zeros for what is missing. That has no
// envelope, and so goes to quarantine. Without a whole stamp nothing can be read of it, as
// in lua/claim.lua.
func (r Record) Mended() Record {
	switch {
	case r.Whole():
		return r
	case len(r) < DigestAt:
		return Record(make([]byte, RecordHeader))
	}
	return r + Record(make([]byte, RecordMaxHead-min(RecordMaxHead, len(r))))
}

// Due is when the message is due, Unix ms.
func (r Record) Due() int64 { return Unix48(string(r)) }

// ParkedAt is when the message was parked, planned anew, or came to its end, Unix ms.
func (r Record) ParkedAt() int64 { return Unix48(string(r[6:])) }

// Published returns when the message was published, Unix ms, or 0 if that is not known.
func (r Record) Published() int64 {
	if r.stamp()&hasPublished == 0 {
		return r.ParkedAt()
	}
	return Unix48(string(r[RecordHeader:]))
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
	body := r[r.Body():]
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

// Body is where the head ends.
func (r Record) Body() int {
	if r.stamp()&hasPublished != 0 {
		return RecordMaxHead
	}
	return RecordHeader
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

// Unix48 reads an instant, Unix ms, of 6 bytes.
func Unix48(s string) int64 {
	var b [8]byte
	copy(b[2:], s[:6])
	return int64(binary.BigEndian.Uint64(b[:])) //nolint:gosec // 48 bits
}

// Put48 writes what [Unix48] reads.
func Put48(b []byte, n int64) {
	var wide [8]byte
	binary.BigEndian.PutUint64(wide[:], uint64(n)) //nolint:gosec // not negative
	copy(b, wide[2:8])
}

// UnixMS is 0 for the zero instant.
func UnixMS(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Handlings returns what is noted down behind the head of a delivered message's record:
// its path, and a line for each queue, the last one first.
func (r Record) Handlings() (path message.Path, all []message.Handling) {
	for line := range strings.Lines(r.told()) {
		queue, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if queue == "" {
			path = message.Path(rest)
			continue
		}
		_, note, _ := strings.Cut(rest, "\t")
		var h message.Handling
		if json.Unmarshal([]byte(note), &h) == nil { // another release may write something else
			all = append(all, h)
		}
	}
	return path, all
}

// Digest is that of the content, see [ContentOf].
func (r Record) Digest() string { return string(r[DigestAt:RecordHeader]) }

// Stored is a record, and the key that it has in Redis.
type Stored struct {
	Key    string
	Record Record
	InLane bool // the broker has a copy of the message, which is not due yet
}

// ID returns the message's ID.
func (r *Stored) ID() string { return IDOf(r.Key) }

// Entry returns the message's entry.
func (r *Stored) Entry() string { return EntryOf(r.Key) }

// Message reads what the record has of the message. The error wraps wire.ErrEnvelope.
func (r *Stored) Message() (message.Message, error) {
	if !r.Record.Whole() {
		return message.Message{}, fmt.Errorf("%w: it is cut off", wire.ErrEnvelope)
	}
	return DecodeEnvelope(r.Record.Envelope(), r.ID())
}
