package redisbridge

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/message"
)

// A record is what Redis keeps of an ID; lua/lib.lua has its layout.
type record string

// state of a record.
type state int

// The states, as in lua/lib.lua.
const (
	stateWaiting state = iota
	stateCancelled
	stateDelivered
	stateMoved
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

// A beginning says what a record begins with. The zero value is that of a message that
// is published now, and goes into a lane.
type beginning struct {
	version   int
	direct    bool
	published int64        // Unix ms, or 0 for now
	alone     bool         // the message is refused where another one has its ID
	asked     message.When // what counts as content; zero is when it is to be delivered
}

// append begins a record; the digest and the other instants are filled in later.
func (h beginning) append(b []byte) []byte {
	stamp := h.version % versions
	if h.direct {
		stamp |= stampDirect
	}
	if h.published > 0 {
		stamp |= hasPublished
	}
	b = append(b, make([]byte, stampAt)...)
	b = binary.BigEndian.AppendUint16(b, uint16(stamp)) //nolint:gosec // 16 bits
	b = append(b, make([]byte, digestLen)...)
	if h.published > 0 {
		b = append(b, make([]byte, publishedLen)...)
		put48(b[len(b)-publishedLen:], h.published)
	}
	return b
}

func (r record) stamp() int {
	return int(r[stampAt])<<8 | int(r[stampAt+1])
}

// whole reports whether r is no shorter than it says.
func (r record) whole() bool {
	return len(r) >= recordHeader && (r.stamp()&hasPublished == 0 || len(r) >= recordMaxHead)
}

// mended returns r, or where it is cut off, r with zeros for what is missing. That has no
// envelope, and so goes to quarantine. Without a whole stamp nothing can be read of it, as
// in lua/claim.lua.
func (r record) mended() record {
	switch {
	case r.whole():
		return r
	case len(r) < digestAt:
		return record(make([]byte, recordHeader))
	}
	return r + record(make([]byte, recordMaxHead-min(recordMaxHead, len(r))))
}

// due, and parkedAt, or when the message was planned anew or came to its end, in Unix ms.
func (r record) due() int64      { return unix48(string(r)) }
func (r record) parkedAt() int64 { return unix48(string(r[6:])) }

// published returns when the message was published, Unix ms, or 0 if that is not known.
func (r record) published() int64 {
	if r.stamp()&hasPublished == 0 {
		return r.parkedAt()
	}
	return unix48(string(r[recordHeader:]))
}

func (r record) version() int { return r.stamp() % versions }
func (r record) state() state { return state(r.stamp() >> stampState & 7) }
func (r record) direct() bool { return r.stamp()&stampDirect != 0 }

// unsettled says whether the message was delivered, and its bridge has not settled it.
func (r record) unsettled() bool { return r.stamp()&isUnsettled != 0 }

// envelope returns what comes after that.
func (r record) envelope() []byte {
	envelope, _ := r.split()
	return []byte(envelope)
}

// told returns what is told of the message's delivery.
func (r record) told() string {
	_, told := r.split()
	return string(told)
}

func (r record) split() (envelope, told record) {
	body := r[r.body():]
	switch {
	case r.state() != stateDelivered:
		return body, ""
	case !r.unsettled() || len(body) < unsettledHead:
		return "", body
	}
	length, rest := []byte(body[keptLen:unsettledHead]), body[unsettledHead:]
	n := min(len(rest), int(binary.BigEndian.Uint32(length)))
	return rest[:n], rest[n:]
}

func (r record) body() int {
	if r.stamp()&hasPublished != 0 {
		return recordMaxHead
	}
	return recordHeader
}

// lead returns the TTL in ms of the lane for which a message is meant that is to be
// promoted at an instant, or 0.
func (r record) lead(promoteAt int64, leads []time.Duration) int64 {
	lead := r.due() - promoteAt
	if !r.direct() && slices.Contains(leads, time.Duration(lead)*time.Millisecond) {
		return lead
	}
	return 0
}

func unix48(s string) int64 {
	var b [8]byte
	copy(b[2:], s[:6])
	return int64(binary.BigEndian.Uint64(b[:])) //nolint:gosec // 48 bits
}

func instantOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
