package checker

import (
	"fmt"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/history"
)

// madeUpAgain begins the ID that a bridge makes up for a message that has none, where the
// broker says that it has delivered the message before (docs/wire-contract.md).
const madeUpAgain = "no-id.redelivered."

// handsOver is how long after a fault a bridge may still find out that it has lost the
// messages that it was taking in.
const handsOver = 30 * time.Second

// copies objects to a message without an ID that comes under more IDs than it was published,
// unless a bridge was cut short, and the broker has said so of the copy. An orderly end cuts
// nothing short.
func (r *record) copies(past *run) (why []string) {
	if !r.noID || len(r.received) == 0 {
		return nil
	}
	ids, first := map[string]bool{}, map[string]bool{}
	for _, e := range r.received {
		if ids[e.ID] = true; !strings.HasPrefix(e.ID, madeUpAgain) {
			first[e.ID] = true
		}
	}
	last := r.received[len(r.received)-1].At
	published := len(r.candidates(last))
	if len(first) > published {
		why = append(why, fmt.Sprintf("published %d times, and received under %d IDs that do not say that they may be repetitions", published, len(first)))
	}
	if len(ids) > published && !cutShort(past.outages, r.events[0].At-handsOver.Microseconds(), last) {
		why = append(why, fmt.Sprintf("published %d times, and received under %d IDs, though every bridge that ended was asked to", published, len(ids)))
	}
	return why
}

// cutShort says whether something else than an orderly end was in force between two instants.
func cutShort(outages []outage, from, to int64) bool {
	for _, o := range outages {
		if o.fault.At <= to && o.mended >= from && !strings.HasSuffix(o.fault.Detail, history.Orderly) {
			return true
		}
	}
	return false
}
