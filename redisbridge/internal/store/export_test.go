package store

import "context"

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
