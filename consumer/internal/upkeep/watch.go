package upkeep

import (
	"context"
	"errors"
	"time"

	"github.com/delaybridge/delaybridge/internal/broker"
)

// watchEvery is how often to ask whether the queue has a consumer. Twice no is
// a no: for an instant there is none when it subscribes again.
const watchEvery = 30 * time.Second

// Watch returns true when the queue is gone, or is another one by now that has
// no consumer, though consuming is not paused: RabbitMQ 3.10, with a node of its cluster
// down, does not always tell a consumer that its queue was deleted. It returns false when
// ctx has ended, or with the connection.
func (q *Queue) Watch(ctx context.Context, paused func() bool) (lost bool) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for missed := 0; missed < 2; {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
		ch, err := q.config.Conn.Channel(ctx)
		if err != nil {
			return false // with the connection, the session is over
		}
		queue, err := ch.QueueDeclarePassive(q.config.Queue, true, false, false, false, nil)
		_ = ch.Close() // the broker has closed it if there was an error
		switch {
		case errors.Is(broker.Classify(err), broker.ErrMissing):
			missed = 2
		case err != nil:
		case queue.Consumers > 0 || paused():
			missed = 0
		default:
			missed++
		}
	}
	return true
}
