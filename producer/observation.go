package producer

import (
	"time"

	"github.com/delaybridge/delaybridge/internal/health"
	"github.com/delaybridge/delaybridge/message"
)

// Observation is what Config.Observe is told of one call of [Producer.Publish].
type Observation struct {
	Message message.Message // whose body and headers are not to be changed
	Receipt Receipt         // zero after an error other than ErrCancelled
	Err     error
	// Took is how long the call lasted: until the broker's confirm or Redis' answer, the
	// wait for a connection included.
	Took time.Duration
}

// Check returns nil while there is a connection to the broker that can be published over.
// The error says what is not so, and has lasted for longer than ten seconds, or since the
// start. It does no I/O, and does not cover the Parker.
func (p *Producer) Check() error {
	if p.gate.open.Err() != nil {
		return errStopped
	}
	return p.conn.State().Check(time.Now(), health.Grace)
}

// Reconnects is how often the connection to the broker was made again after it was lost.
func (p *Producer) Reconnects() int64 { return int64(p.conn.State().Reconnects()) }
