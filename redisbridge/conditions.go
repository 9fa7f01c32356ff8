package redisbridge

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Condition names something that is wrong with an installation for as long as it lasts.
// A bridge logs one line when it sees that one begins, and one when it has ended; its
// report, [Bridge.Conditions], doctor, top and the metrics say the same meanwhile.
type Condition string

// The conditions that a bridge sees.
const (
	// ConditionRedisFull: Redis refuses to park, for lack of memory.
	ConditionRedisFull Condition = "redis_full"
	// ConditionIntakeStuck: messages stay in the inbox for another reason.
	ConditionIntakeStuck Condition = "intake_stuck"
	// ConditionRedisSettings: Redis is not set to keep what it confirms.
	ConditionRedisSettings Condition = "redis_settings"
	// ConditionRedisLost: what a bridge had in Redis has vanished: its entry in the
	// register, the layout, or the turn of a shard. Parked messages have gone with it. It
	// lasts for a day after that.
	ConditionRedisLost Condition = "redis_lost"
	// ConditionPolicy: a policy overrides the arguments of our queues. Only a bridge with
	// Config.Management sees it.
	ConditionPolicy Condition = "policy"
	// ConditionUnconfirmed: the broker does not answer for a message that was published.
	ConditionUnconfirmed Condition = "unconfirmed"
	// ConditionUnfit: the broker accepts a message neither where it belongs nor in
	// quarantine, since it is too large, say. It stays in Redis, and is tried every hour. The
	// condition lasts until the broker has it, or for two hours after the last try.
	ConditionUnfit Condition = "unfit"
)

// Conditions returns all that a bridge may see.
func Conditions() []Condition {
	var all []Condition
	for _, c := range conditionTable() {
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

func (c Condition) entry() conditionEntry {
	for _, e := range conditionTable() {
		if e.is == c {
			return e
		}
	}
	return conditionEntry{}
}

// conditionEntry is all that is said of a condition, wherever it is said.
type conditionEntry struct {
	is           Condition
	level        slog.Level
	begins, ends string // log lines
	means, do    string
	lasts        time.Duration // after it was last seen; 0: until the opposite is seen
}

func conditionTable() []conditionEntry {
	return []conditionEntry{
		{
			ConditionRedisFull, slog.LevelError, "Redis is full: messages stay in the inbox", "Redis has room again: messages leave the inbox",
			"Redis is full: nothing is parked, and the inbox grows", "raise maxmemory; what is parked still leaves in time", 5 * time.Second,
		},
		{
			ConditionIntakeStuck, slog.LevelWarn, "messages stay in the inbox for now", "messages leave the inbox again",
			"messages stay in the inbox", "mend what the error names", 5 * time.Second,
		},
		{
			ConditionRedisSettings, slog.LevelWarn, "Redis is not set to keep what it confirms", "Redis is set to keep what it confirms",
			"Redis may lose what it confirms", "see 'delaybridge doctor'", 0,
		},
		{
			ConditionRedisLost, slog.LevelError, "Redis has lost what this bridge kept there: parked messages are gone", "the loss in Redis is a day ago, and is reported no longer",
			"Redis has lost parked messages", "restore Redis' data; publish again what is missing", 0,
		},
		{
			ConditionPolicy, slog.LevelError, "a policy overrides the queues' arguments: messages come early, are dropped or refused", "no policy overrides the queues' arguments any more",
			"a policy overrides the queues' arguments: messages come early, are dropped or refused", "see 'delaybridge doctor'", 0,
		},
		{
			ConditionUnconfirmed, slog.LevelError, "RabbitMQ does not confirm what was published", "RabbitMQ confirms what is published again",
			"RabbitMQ does not confirm what was published", "has each queue a majority? 'rabbitmq-diagnostics cluster_status'", unconfirmedAfter,
		},
		{
			ConditionUnfit, slog.LevelError, "RabbitMQ does not accept a message: it stays in Redis", "RabbitMQ accepts the messages that stayed in Redis",
			"RabbitMQ does not accept a message, which stays in Redis", "raise max_message_size or frame_max, then reschedule the message; or cancel it", 2 * unfitPause,
		},
	}
}

// ConditionState is a condition that lasts.
type ConditionState struct {
	Condition Condition
	Since     time.Time // by this machine's clock
	Detail    string
}

// ReportedCondition is one that a bridge has reported.
type ReportedCondition struct {
	Condition Condition `json:"condition"`
	// LastsMS is for how long it has lasted, in ms, when the report was made.
	LastsMS int64  `json:"lasts_ms"`
	Detail  string `json:"detail,omitempty"`
}

// conditions keeps those that last.
type conditions struct {
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

func newConditions(log *slog.Logger, changed func()) *conditions {
	return &conditions{log: log, changed: changed, last: map[Condition]*lasting{}}
}

// begin notes down that a condition is seen, and logs it unless it lasts already. detail
// may change meanwhile.
func (c *conditions) begin(is Condition, detail string, attributes ...any) {
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
func (c *conditions) expire(is Condition, l *lasting, lasts time.Duration) {
	c.mu.Lock()
	quiet := time.Since(l.seen)
	if c.last[is] == l && quiet < lasts {
		l.over.Reset(lasts - quiet)
	}
	over := c.last[is] == l && quiet >= lasts
	c.mu.Unlock()
	if over {
		c.end(is)
	}
}

// end notes down that the opposite of a condition is seen.
func (c *conditions) end(is Condition) {
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

// close stops all timers.
func (c *conditions) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.last {
		if l.over != nil {
			l.over.Stop()
		}
	}
}

func (c *conditions) list() []ConditionState {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []ConditionState
	for is, l := range c.last {
		all = append(all, ConditionState{is, l.since, l.detail})
	}
	slices.SortFunc(all, func(a, b ConditionState) int { return cmp.Compare(a.Condition, b.Condition) })
	return all
}

func (c *conditions) report(now time.Time) (all []ReportedCondition) {
	for _, s := range c.list() {
		all = append(all, ReportedCondition{s.Condition, now.Sub(s.Since).Milliseconds(), s.Detail})
	}
	return all
}

// Conditions returns what is wrong with the installation now, as far as this bridge sees
// it, sorted by name.
func (b *Bridge) Conditions() []ConditionState { return b.conditions.list() }

const (
	// unconfirmedAfter is how long the broker may take to answer before that is a
	// condition; under load it takes seconds at most.
	unconfirmedAfter = 10 * time.Second
	// unconfirmedEvery is how often that is looked at.
	unconfirmedEvery = 2 * time.Second
)

// watchAnswers looks for a target that the broker has not answered for, for long.
func (b *Bridge) watchAnswers(ctx context.Context) error {
	ticker := time.NewTicker(unconfirmedEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		worst := b.unanswered.Longest()
		for _, s := range b.shards {
			if l := s.unanswered.Longest(); l.For > worst.For {
				worst = l
			}
		}
		if worst.For >= unconfirmedAfter {
			b.conditions.begin(ConditionUnconfirmed, fmt.Sprintf("exchange %q, routing key %q: no answer for %v, of %d messages",
				worst.Exchange, worst.Key, worst.For.Truncate(time.Second), worst.Messages))
		}
	}
}
