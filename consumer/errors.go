package consumer

import (
	"errors"

	"github.com/delaybridge/delaybridge/internal/broker"
)

// Errors with which [Consumer.Run] ends before it has consumed for the first time, and
// ErrNotDrained. Trying again does not help before a person has changed something.
var (
	// ErrUnreachable: no connection for Config.StartWithin.
	ErrUnreachable = broker.ErrUnreachable
	// ErrConfiguration: a wrong URL, user, password or virtual host. [New]
	// returns it too.
	ErrConfiguration = broker.ErrConfiguration
	// ErrForbidden: the user lacks a permission, which the message names.
	ErrForbidden = broker.ErrForbidden
	// ErrMissing: an exchange of the topology does not exist.
	ErrMissing = broker.ErrMissing
	// ErrNoQueue: the queue does not exist, and there is no Config.Bind to
	// declare it by.
	ErrNoQueue = errors.New("the queue does not exist: declare it, or say by which routing keys to bind it")
	// ErrQueueDiffers: Config.Bind is set and the queue exists with other
	// arguments than the consumer would give it.
	ErrQueueDiffers = errors.New("the queue exists with other arguments: use it as it is by leaving out the binding keys, or choose another name")
	// ErrNotDrained: handlers were still at work when Config.DrainTimeout was
	// over and did not heed the end of their context. Their messages return to
	// the queue.
	ErrNotDrained = errors.New("handlers are still at work after the drain timeout; their messages return to the queue")
)

// ends reports whether err ends Run. Once the consumer has worked, nothing does: what
// was there, such as a topology that was deleted, a bridge or a person may put back.
func (c *Consumer) ends(err error) bool {
	select {
	case <-c.ready:
		return false
	default:
	}
	missing := errors.Is(err, ErrMissing) || errors.Is(err, ErrNoQueue)
	if missing && c.config.WaitForTopology {
		return false
	}
	return missing || broker.Permanent(err) || errors.Is(err, ErrUnreachable) || errors.Is(err, ErrQueueDiffers)
}
