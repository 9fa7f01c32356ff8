package store

import (
	"context"

	"github.com/delaybridge/delaybridge/message"
)

// Batches is batches with parking made of nothing but its size.
type Batches struct{ batches batcher }

// NewBatches calls send with the size of each batch.
func NewBatches(send func(n int)) *Batches {
	return &Batches{batcher{send: func(batch []*pendingPark) {
		send(len(batch))
		for _, one := range batch {
			one.answer <- nil
		}
	}}}
}

// Park parks a message whose envelope has so many bytes.
func (l *Batches) Park(ctx context.Context, bytes int) error {
	return l.batches.park(ctx, &pendingPark{stored: make([]byte, bytes), answer: make(chan error, 1)})
}

// BatchBytes is batchBytes.
const BatchBytes = batchBytes

// The codec of envelopes.
const PeekBytes = peekBytes

// AppendEnvelope is appendEnvelope.
func AppendEnvelope(b []byte, m *message.Message, key string) []byte {
	return appendEnvelope(b, m, key)
}

// DecodeEnvelope is decodeEnvelope.
func DecodeEnvelope(b []byte, key string) (message.Message, error) { return decodeEnvelope(b, key) }

// PeekEnvelope is peekEnvelope.
func PeekEnvelope(b []byte, key string) (message.Message, error) { return peekEnvelope(b, key) }
