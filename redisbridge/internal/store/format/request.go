package format

import (
	"github.com/delaybridge/delaybridge/message"
)

// A Request is what lua/park.lua wants to know of a message, packed.
type Request [13 + len(Slot{})]byte

// What the first byte of a request says.
const (
	wantsDelay   = 1
	wantsNoLane  = 2
	wantsIDAlone = 4
	hasNoRoom    = 8
)

// RequestFor packs instants and delays, which fit into 6 bytes: message.When.Validate
// sees to it.
func RequestFor(w message.When, notLaterThan int64, s Slot, direct, alone, over bool) (packed Request) {
	delay, relative := w.Relative()
	ms := delay.Milliseconds()
	if relative {
		packed[0] = wantsDelay
	} else {
		instant, _ := w.Instant()
		ms = instant.UnixMilli()
	}
	if direct {
		packed[0] |= wantsNoLane
	}
	if alone {
		packed[0] |= wantsIDAlone
	}
	if over {
		packed[0] |= hasNoRoom
	}
	Put48(packed[1:], max(0, ms))
	Put48(packed[7:], notLaterThan)
	copy(packed[13:], s[:])
	return packed
}
