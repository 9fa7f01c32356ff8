package store

import (
	_ "embed"
	"fmt"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/lib.lua
var libLua string

//go:embed lua/park.lua
var parkLua string

//go:embed lua/cancel.lua
var cancelLua string

//go:embed lua/erase.lua
var eraseLua string

//go:embed lua/reschedule.lua
var rescheduleLua string

//go:embed lua/arrive.lua
var arriveLua string

//go:embed lua/handled.lua
var handledLua string

//go:embed lua/repark.lua
var reparkLua string

//go:embed lua/sweep.lua
var sweepLua string

//go:embed lua/claim.lua
var claimLua string

//go:embed lua/settle.lua
var settleLua string

//go:embed lua/postpone.lua
var postponeLua string

//go:embed lua/yield.lua
var yieldLua string

//go:embed lua/attend.lua
var attendLua string

//go:embed lua/beat.lua
var beatLua string

//go:embed lua/bridges.lua
var bridgesLua string

//go:embed lua/flow.lua
var flowLua string

//go:embed lua/clock.lua
var clockLua string

//go:embed lua/look.lua
var lookLua string

//go:embed lua/pages.lua
var pagesLua string

//go:embed lua/list.lua
var listLua string

//go:embed lua/count.lua
var countLua string

//go:embed lua/tally.lua
var tallyLua string

//go:embed lua/glance.lua
var glanceLua string

//go:embed lua/take.lua
var takeLua string

//go:embed lua/implant.lua
var implantLua string

//go:embed lua/drop.lua
var dropLua string

//go:embed lua/close.lua
var closeLua string

//go:embed lua/reshard.lua
var reshardLua string

// scripts are the only way in which parked messages change.
type scripts struct {
	park, cancel, reschedule, arrive, repark, claim, settle, postpone, yield, attend, beat, clock *redis.Script
	handled, look, list, count, tally, glance, bridges, flow, sweep, erase                        *redis.Script
	take, implant, drop, shut, reshard                                                            *redis.Script
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

func newScripts() scripts {
	with := func(flags, source string) *redis.Script { return redis.NewScript(flags + libLua + source) }
	return scripts{
		// Without flags park still answers in a full Redis where it writes
		// nothing: that a message is parked already, or overdue.
		park: with("", parkLua), clock: with("", clockLua),
		claim: with(evenFull, claimLua), settle: with(evenFull, settleLua), postpone: with(evenFull, postponeLua),
		cancel: with(evenFull, cancelLua), reschedule: with(evenFull, rescheduleLua),
		arrive: with(evenFull, arriveLua), repark: with(evenFull, reparkLua),
		handled: with("", handledLua), // nothing depends on it
		look:    with(onlyLooks, lookLua), list: with(onlyLooks, pagesLua+listLua),
		count: with(onlyLooks, countLua), tally: with(onlyLooks, pagesLua+tallyLua),
		glance:  with(onlyLooks, glanceLua),
		bridges: with(onlyLooks, bridgesLua), flow: with(onlyLooks, flowLua),
		sweep: with(evenFull, sweepLua), erase: with(evenFull, eraseLua),
		take: with(evenFull, takeLua), implant: with(evenFull, implantLua), drop: with(evenFull, dropLua),
		shut: with(evenFull, closeLua), reshard: with(evenFull, reshardLua),
		yield: with(evenFull, yieldLua), attend: with(evenFull, attendLua), beat: with(evenFull, beatLua),
	}
}

// ScriptNames returns the names of the Lua scripts by their hashes, by which EVALSHA and
// EVALSHA_RO call them: for those who observe a client.
func ScriptNames() map[string]string {
	s := newScripts()
	names := map[string]string{}
	for name, script := range map[string]*redis.Script{
		"park": s.park, "cancel": s.cancel, "reschedule": s.reschedule,
		"arrive": s.arrive, "repark": s.repark, "claim": s.claim, "settle": s.settle, "postpone": s.postpone,
		"yield": s.yield, "attend": s.attend, "beat": s.beat, "clock": s.clock, "look": s.look, "list": s.list, "count": s.count,
		"tally": s.tally, "glance": s.glance, "sweep": s.sweep, "erase": s.erase,
		"take": s.take, "implant": s.implant, "drop": s.drop, "close": s.shut, "reshard": s.reshard,
	} {
		names[script.Hash()] = name
	}
	return names
}

// reply reads a script's array answer field by field. After the first surprise
// it returns zero values and keeps the fault.
type reply struct {
	rest []any
	err  error
}

func (r *reply) next() any {
	if len(r.rest) == 0 {
		r.fail("ends too early")
		return nil
	}
	v := r.rest[0]
	r.rest = r.rest[1:]
	return v
}

func (r *reply) int() int64 {
	v := r.next()
	n, ok := v.(int64)
	if !ok {
		r.fail("%T where a number belongs", v)
	}
	return n
}

func (r *reply) string() string {
	v := r.next()
	s, ok := v.(string)
	if !ok {
		r.fail("%T where a string belongs", v)
	}
	return s
}

func (r *reply) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("redisbridge: answer of a script: "+format, args...)
	}
}
