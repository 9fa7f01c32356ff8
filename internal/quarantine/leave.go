package quarantine

import (
	"fmt"
	"time"
)

// leaveTimeout is how long to wait for what goes back to the queue: others may take
// it before it is seen there.
const (
	leaveTimeout = time.Second
	leavePoll    = 5 * time.Millisecond
)

// leave gives back what was looked at, and returns once that is in the queue again, and
// what was acknowledged is gone: a second command may follow at once.
//
// AMQP confirms neither. When a channel is closed the broker even forgets some of the
// acknowledgements: to a quorum queue it sends on 32, and keeps the others until it has
// heard of those. To get a message goes the same way, but has an answer; before the
// second one everything is on its way, and before the third it is there. To close the
// channel keeps the order of the queue better than to reject each message.
func (w *walk) leave() {
	for n := range w.consumers {
		if w.channels[n/perChannel].Cancel(tag(n+1), false) != nil {
			return // the channel is lost, and with it all is given back
		}
	}
	if w.consumers == 0 {
		return
	}
	before, err := w.count()
	if err != nil {
		return
	}
	for _, ch := range w.channels {
		for range 3 {
			if _, _, err := ch.Get(w.queue, false); err != nil {
				return
			}
		}
		if ch.Close() != nil {
			return
		}
	}
	for deadline := time.Now().Add(leaveTimeout); time.Now().Before(deadline); time.Sleep(leavePoll) {
		if n, err := w.count(); err != nil || n >= before+w.held {
			return
		}
	}
}

// tag names a consumer. The broker goes by the order of names where there are few.
func tag(n int) string { return fmt.Sprintf("walk %09d", n) }
