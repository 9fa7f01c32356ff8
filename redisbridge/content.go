package redisbridge

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"

	"github.com/delaybridge/delaybridge/message"
)

// notContent returns the headers by which a repetition may differ from the first message:
// those that ask for a delay, of which the request counts, when the broker took it, and
// trace context, which instrumentations make anew for each attempt.
func notContent() [6]string {
	return [...]string{
		message.HeaderDelay, message.HeaderDeliverAt, message.HeaderBrokerTimestamp,
		message.HeaderTraceparent, message.HeaderTracestate, message.HeaderBaggage,
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
			envelope = message.AppendEnvelope(nil, &bare, m.ID)
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
	return contentOf(&sent, message.After(onItsWay(m)), message.AppendEnvelope(nil, &sent, m.ID))
}
