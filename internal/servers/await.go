package servers

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// startTimeout bounds the wait for a server to answer. RabbitMQ takes 5 to 12 s
// on two quiet cores, and a cluster of it 15 to 30 s.
const startTimeout = 5 * time.Minute

// probeInterval is how often a server is asked whether it has got there.
const probeInterval = 100 * time.Millisecond

// hopeless is an answer after which asking again is of no use.
type hopeless struct{ error }

// await asks until the answer is nil or hopeless, or startTimeout is over.
func await(ctx context.Context, probe func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		err := probe(ctx)
		if err == nil || errors.As(err, new(hopeless)) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited in vain: %w (%w)", err, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
