package format

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"time"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
)

// notContent returns the headers by which a repetition may differ from the first message:
// those that ask for a delay, of which the request counts, when the broker took it, and
// trace context, which instrumentations make anew for each attempt.
func notContent() [8]string {
	return [...]string{
		wire.HeaderDelay, wire.HeaderDeliverAt, wire.HeaderDeliveryTime, wire.HeaderDeliveryDelay, wire.HeaderBrokerTimestamp,
		wire.HeaderTraceparent, wire.HeaderTracestate, wire.HeaderBaggage,
	}
}

// ContentOf returns the digest by which a repetition of a message is known: the beginning of
// a SHA-256 of its envelope, without the headers that are no content, and of what it asks
// for. It belongs to what is stored. envelope is that of m.
//
// A message that has come out before, and was dead-lettered into an entry, carries when it
// was due: each of its rounds is another message.
func ContentOf(m *message.Message, w message.When, envelope []byte) (digest [DigestLen]byte) {
	for _, name := range notContent() {
		if _, there := m.Headers[name]; there {
			bare := *m
			bare.Headers = maps.Clone(m.Headers)
			for _, name := range notContent() {
				delete(bare.Headers, name)
			}
			envelope = AppendEnvelope(nil, &bare, m.ID)
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

// ContentAsSent returns the digest of a message that has come out of a tier: that which Redis
// would have if the message had been parked.
func ContentAsSent(m *message.Message) [DigestLen]byte {
	sent := *m
	sent.Journey = message.Journey{}
	return ContentOf(&sent, message.After(OnItsWay(m)), AppendEnvelope(nil, &sent, m.ID))
}

// OnItsWay returns for how long a message that has come has been on its way, at least: for as
// long as its delay, by what it says.
func OnItsWay(m *message.Message) time.Duration {
	if j := &m.Journey; !j.Published.IsZero() && !j.Due.IsZero() {
		return max(0, j.Due.Sub(j.Published))
	}
	when, err := message.WhenFromHeaders(m.Headers, time.Now())
	if delay, relative := when.Relative(); err == nil && relative {
		return delay
	}
	return 0
}
