package consumer

import (
	"errors"
	"time"

	"github.com/delaybridge/delaybridge/internal/broker"
)

// watchEvery is how often a session asks whether its queue knows it. Twice no is
// a no: for an instant there is no consumer when a session is wary no longer.
const watchEvery = 30 * time.Second

// watch tells dispatch when the queue is gone, or is another one by now that has
// no consumer: RabbitMQ 3.10, with a node of its cluster down, does not always
// tell a consumer that its queue was deleted.
func (s *session) watch() {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for missed := 0; missed < 2; {
		select {
		case <-s.alive.Done():
			return
		case <-ticker.C:
		}
		ch, err := s.consuming.Channel(s.alive)
		if err != nil {
			return // with the connection, the session is over
		}
		queue, err := ch.QueueDeclarePassive(s.config.Queue, true, false, false, false, nil)
		_ = ch.Close() // the broker has closed it if there was an error
		switch {
		case errors.Is(broker.Classify(err), broker.ErrMissing):
			missed = 2
		case err != nil:
		case queue.Consumers > 0 || s.paused.Load():
			missed = 0
		default:
			missed++
		}
	}
	close(s.unknown)
}
