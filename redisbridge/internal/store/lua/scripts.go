// Package lua has the scripts that run in Redis. The store has a method for each.
package lua

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

//go:embed lib.lua
var libLua string

//go:embed park.lua
var parkLua string

//go:embed cancel.lua
var cancelLua string

//go:embed erase.lua
var eraseLua string

//go:embed reschedule.lua
var rescheduleLua string

//go:embed arrive.lua
var arriveLua string

//go:embed handled.lua
var handledLua string

//go:embed repark.lua
var reparkLua string

//go:embed sweep.lua
var sweepLua string

//go:embed claim.lua
var claimLua string

//go:embed settle.lua
var settleLua string

//go:embed postpone.lua
var postponeLua string

//go:embed yield.lua
var yieldLua string

//go:embed attend.lua
var attendLua string

//go:embed beat.lua
var beatLua string

//go:embed bridges.lua
var bridgesLua string

//go:embed flow.lua
var flowLua string

//go:embed clock.lua
var clockLua string

//go:embed look.lua
var lookLua string

//go:embed pages.lua
var pagesLua string

//go:embed list.lua
var listLua string

//go:embed count.lua
var countLua string

//go:embed tally.lua
var tallyLua string

//go:embed glance.lua
var glanceLua string

//go:embed take.lua
var takeLua string

//go:embed implant.lua
var implantLua string

//go:embed drop.lua
var dropLua string

//go:embed close.lua
var closeLua string

//go:embed reshard.lua
var reshardLua string

// Scripts are the only way in which parked messages change.
type Scripts struct {
	Park, Cancel, Reschedule, Arrive, Repark, Claim, Settle, Postpone, Yield, Attend, Beat, Clock *redis.Script
	Handled, Look, List, Count, Tally, Glance, Bridges, Flow, Sweep, Erase                        *redis.Script
	Take, Implant, Drop, Shut, Reshard                                                            *redis.Script
}

// evenFull lets a script write when maxmemory is reached, so that a full Redis
// still lets messages out. What these scripts add is small, and as much goes
// when they move or forget a message. A script that begins with flags may touch
// the keys of one slot of a Redis Cluster only, the slot of those it is given:
// all keys of a shard are in one, derived ones too, by their hash tag.
const evenFull = "#!lua flags=allow-oom\n"

// onlyLooks has the server see to it that a script writes nothing. A full Redis runs it. Such
// scripts, and clock, are run by EVALSHA_RO, which a user who may only read the keys may call.
const onlyLooks = "#!lua flags=no-writes\n"

// New returns the scripts.
func New() Scripts {
	with := func(flags, source string) *redis.Script { return redis.NewScript(flags + libLua + source) }
	return Scripts{
		// Without flags park still answers in a full Redis where it writes
		// nothing: that a message is parked already, or overdue.
		Park: with("", parkLua), Clock: with("", clockLua),
		Claim: with(evenFull, claimLua), Settle: with(evenFull, settleLua), Postpone: with(evenFull, postponeLua),
		Cancel: with(evenFull, cancelLua), Reschedule: with(evenFull, rescheduleLua),
		Arrive: with(evenFull, arriveLua), Repark: with(evenFull, reparkLua),
		Handled: with("", handledLua), // nothing depends on it
		Look:    with(onlyLooks, lookLua), List: with(onlyLooks, pagesLua+listLua),
		Count: with(onlyLooks, countLua), Tally: with(onlyLooks, pagesLua+tallyLua),
		Glance:  with(onlyLooks, glanceLua),
		Bridges: with(onlyLooks, bridgesLua), Flow: with(onlyLooks, flowLua),
		Sweep: with(evenFull, sweepLua), Erase: with(evenFull, eraseLua),
		Take: with(evenFull, takeLua), Implant: with(evenFull, implantLua), Drop: with(evenFull, dropLua),
		Shut: with(evenFull, closeLua), Reshard: with(evenFull, reshardLua),
		Yield: with(evenFull, yieldLua), Attend: with(evenFull, attendLua), Beat: with(evenFull, beatLua),
	}
}
