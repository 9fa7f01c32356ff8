package promote

import (
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/internal/health"
)

// poisonBackoff counts, for each message, how often in a row the broker has closed the channel
// over it when it was alone there. Over one that is to blame it does so each time; but a
// broker that has trouble of its own, such as while it starts, may do so over any.
type poisonBackoff struct {
	mu sync.Mutex
	of map[string]poison // by record key
}

type poison struct {
	pauses int   // so far
	unfit  int   // how many of these were over the message itself
	last   error // the last one of those
}

const (
	// objectionsKept bounds the messages that are counted. Of those that are forgotten
	// the count begins again.
	objectionsKept = 1 << 14
	// triesBeforeQuarantine is how often the broker is given a message before that goes to
	// quarantine instead: half a minute, with the pauses between.
	triesBeforeQuarantine = 5
)

func newPoisonBackoff() *poisonBackoff { return &poisonBackoff{of: map[string]poison{}} }

// count counts one more, and returns how long the message waits now: refusedPause at first,
// then twice as long each time, up to brokenPause, or health.UnfitPause where the broker objects to
// the message itself. It waits in Redis; held says that quarantine has not taken it either.
func (o *poisonBackoff) count(key string, err error, unfit bool) (pause time.Duration, held bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	one, known := o.of[key]
	for other := range o.of {
		if known || len(o.of) < objectionsKept {
			break
		}
		delete(o.of, other)
	}
	most := brokenPause
	if unfit {
		most = health.UnfitPause
		one.unfit++
		one.last = err
	}
	pause = refusedPause
	for range one.pauses {
		pause = min(2*pause, most)
	}
	one.pauses++
	o.of[key] = one
	return pause, one.unfit > triesBeforeQuarantine
}

// givenUp returns why a message is to go to quarantine now, or nil. Where quarantine does not
// take it either, the message is tried as usual from then on: someone may have raised a limit.
func (o *poisonBackoff) givenUp(key string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if one := o.of[key]; one.unfit == triesBeforeQuarantine {
		return one.last
	}
	return nil
}

// forget ends the row: the broker has the message. It reports whether no message is held
// any more that was.
func (o *poisonBackoff) forget(key string) (last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	held := o.of[key].unfit > triesBeforeQuarantine
	delete(o.of, key)
	if !held {
		return false
	}
	for _, one := range o.of {
		if one.unfit > triesBeforeQuarantine {
			return false
		}
	}
	return true
}
