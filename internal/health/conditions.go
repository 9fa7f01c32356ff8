// Package health is the table of what can be wrong with an installation, and keeps in mind
// what is.
package health

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Condition names something that is wrong with an installation for as long as it lasts.
// A bridge logs one line when it sees that one begins, and one when it has ended; its
// report, redisbridge.Bridge.Conditions, doctor, top and the metrics say the same meanwhile.
type Condition string

// The conditions that a bridge sees.
const (
	// RedisFull: Redis refuses to park, for lack of memory.
	RedisFull Condition = "redis_full"
	// IntakeStuck: messages stay in the inbox for another reason.
	IntakeStuck Condition = "intake_stuck"
	// Quota: an entry has no room for a message, which goes to quarantine.
	Quota Condition = "quota"
	// RedisSettings: Redis is not set to keep what it confirms.
	RedisSettings Condition = "redis_settings"
	// RedisLost: what a bridge had in Redis has vanished: its entry in the
	// register, the layout, or the turn of a shard. Parked messages have gone with it. It
	// lasts for a day after that.
	RedisLost Condition = "redis_lost"
	// Foreign: Redis does not hold what the broker's installation has parked. The bridge parks and
	// promotes nothing until Redis is restored or adopted.
	Foreign Condition = "redis_foreign"
	// Policy: a policy overrides the arguments of our queues. Only a bridge with
	// Config.Management sees it.
	Policy Condition = "policy"
	// Unconfirmed: the broker does not answer for a message that was published.
	Unconfirmed Condition = "unconfirmed"
	// Newer: a message was written by a later release than a bridge's, which cannot read it. It
	// stays in Redis, and is tried again every Config.RepairEvery.
	Newer Condition = "newer"
	// Unfit: the broker accepts a message neither where it belongs nor in
	// quarantine, since it is too large, say. It stays in Redis, and is tried every hour. The
	// condition lasts until the broker has it, or for two hours after the last try.
	Unfit Condition = "unfit"
)

// All returns all that a bridge may see.
func All() []Condition {
	var all []Condition
	for _, c := range table() {
		all = append(all, c.is)
	}
	return all
}

// Means says in a few words what is wrong, and Do what mends it. Both are empty for one
// that this release does not know.
func (c Condition) Means() string { return c.entry().means }

// Do says what mends it.
func (c Condition) Do() string { return c.entry().do }

// Grave reports whether messages are lost, early or late while it lasts.
func (c Condition) Grave() bool { return c.entry().level == slog.LevelError }

func (c Condition) entry() entry {
	for _, e := range table() {
		if e.is == c {
			return e
		}
	}
	return entry{}
}

// entry is all that is said of a condition, wherever it is said.
type entry struct {
	is           Condition
	level        slog.Level
	begins, ends string // log lines
	means, do    string
	lasts        time.Duration // after it was last seen; 0: until the opposite is seen
}

func table() []entry {
	return []entry{
		{
			RedisFull, slog.LevelError, "Redis is full: messages stay in the inbox", "Redis has room again: messages leave the inbox",
			"Redis is full: nothing is parked, and the inbox grows", "raise maxmemory; what is parked still leaves in time", 5 * time.Second,
		},
		{
			IntakeStuck, slog.LevelWarn, "messages stay in the inbox for now", "messages leave the inbox again",
			"messages stay in the inbox", "mend what the error names", 5 * time.Second,
		},
		{
			Quota, slog.LevelWarn, "an entry is over its quota: its messages go to quarantine", "no entry is over its quota any more",
			"an entry is over its quota, and its messages go to quarantine", "see 'delaybridge stats'; raise the quota, or have its publishers send less", time.Minute,
		},
		{
			RedisSettings, slog.LevelWarn, "Redis is not set to keep what it confirms", "Redis is set to keep what it confirms",
			"Redis may lose what it confirms", "see 'delaybridge doctor'", 0,
		},
		{
			RedisLost, slog.LevelError, "Redis has lost what this bridge kept there: parked messages are gone", "the loss in Redis is a day ago, and is reported no longer",
			"Redis has lost parked messages", "restore Redis' data; publish again what is missing", 0,
		},
		{
			Foreign, slog.LevelError, "Redis is not what this installation has parked in: nothing is parked and promoted", "Redis is this installation's: the bridge goes on",
			"Redis was emptied, is an older copy, or is another installation's: nothing is parked and promoted",
			"restore Redis' data, or go on with what it has: 'delaybridge adopt'", 0,
		},
		{
			Policy, slog.LevelError, "a policy overrides the queues' arguments: messages come early, are dropped or refused", "no policy overrides the queues' arguments any more",
			"a policy overrides the queues' arguments: messages come early, are dropped or refused", "see 'delaybridge doctor'", 0,
		},
		{
			Unconfirmed, slog.LevelError, "RabbitMQ does not confirm what was published", "RabbitMQ confirms what is published again",
			"RabbitMQ does not confirm what was published", "has each queue a majority? 'rabbitmq-diagnostics cluster_status'", UnconfirmedAfter,
		},
		{
			Newer, slog.LevelError, "a message was written by a later release: it stays in Redis", "no message that a later release has written was met any more",
			"a bridge cannot read a message that a later release has written, which waits in Redis", "replace that bridge by the later release", 3 * time.Minute,
		},
		{
			Unfit, slog.LevelError, "RabbitMQ does not accept a message: it stays in Redis", "RabbitMQ accepts the messages that stayed in Redis",
			"RabbitMQ does not accept a message, which stays in Redis", "raise max_message_size or frame_max, then reschedule the message; or cancel it", 2 * UnfitPause,
		},
	}
}

// State is a condition that lasts.
type State struct {
	Condition Condition
	Since     time.Time // by this machine's clock
	Detail    string
}

// Conditions keeps those that last.
type Conditions struct {
	log     *slog.Logger
	changed func()

	mu   sync.Mutex
	last map[Condition]*lasting
}

type lasting struct {
	since  time.Time
	detail string
	seen   time.Time
	over   *time.Timer // nil where only the opposite ends it
}

// New returns one in which none lasts. changed is called when one begins or ends.
func New(log *slog.Logger, changed func()) *Conditions {
	return &Conditions{log: log, changed: changed, last: map[Condition]*lasting{}}
}

// Begin notes down that a condition is seen, and logs it unless it lasts already. detail
// may change meanwhile.
func (c *Conditions) Begin(is Condition, detail string, attributes ...any) {
	now, e := time.Now(), is.entry()
	c.mu.Lock()
	l, lasts := c.last[is]
	if lasts {
		l.detail, l.seen = detail, now
		c.mu.Unlock()
		return
	}
	l = &lasting{since: now, detail: detail, seen: now}
	if e.lasts > 0 {
		l.over = time.AfterFunc(e.lasts, func() { c.expire(is, l, e.lasts) })
	}
	c.last[is] = l
	c.mu.Unlock()
	c.log.Log(context.Background(), e.level, e.begins, append([]any{"condition", is, "detail", detail}, attributes...)...) //nolint:sloglint // one of the table's constants
	c.changed()
}

// expire ends a condition that was not seen for long enough.
func (c *Conditions) expire(is Condition, l *lasting, lasts time.Duration) {
	c.mu.Lock()
	quiet := time.Since(l.seen)
	if c.last[is] == l && quiet < lasts {
		l.over.Reset(lasts - quiet)
	}
	over := c.last[is] == l && quiet >= lasts
	c.mu.Unlock()
	if over {
		c.End(is)
	}
}

// End notes down that the opposite of a condition is seen.
func (c *Conditions) End(is Condition) {
	c.mu.Lock()
	l, lasted := c.last[is]
	delete(c.last, is)
	c.mu.Unlock()
	if !lasted {
		return
	}
	if l.over != nil {
		l.over.Stop()
	}
	c.log.Info(is.entry().ends, "condition", is, "lasted", time.Since(l.since).Truncate(time.Millisecond)) //nolint:sloglint // one of the table's constants
	c.changed()
}

// Close stops all timers.
func (c *Conditions) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.last {
		if l.over != nil {
			l.over.Stop()
		}
	}
}

// List returns those that last, sorted by name.
func (c *Conditions) List() []State {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []State
	for is, l := range c.last {
		all = append(all, State{is, l.since, l.detail})
	}
	slices.SortFunc(all, func(a, b State) int { return cmp.Compare(a.Condition, b.Condition) })
	return all
}

// Grace is for how long something may be wrong before a check says so, once it was right: a
// lost connection mostly comes back by itself.
const Grace = 10 * time.Second

const (
	// UnconfirmedAfter is how long the broker may take to answer before that is a
	// condition; under load it takes seconds at most.
	UnconfirmedAfter = 10 * time.Second
	// UnfitPause is how long a message waits to which the broker objects, at most.
	UnfitPause = time.Hour
)

// Releases says of how many bridges each release is, by the versions that they report, where there are
// several releases, and "" where there is one. A bridge that reports none is of an unknown one.
func Releases(versions []string) string {
	counts := map[string]int{}
	for _, version := range versions {
		counts[cmp.Or(version, "unknown")]++
	}
	if len(counts) < 2 {
		return ""
	}
	var all []string
	for _, version := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprintf("%s: %d", version, counts[version]))
	}
	return strings.Join(all, ", ")
}
