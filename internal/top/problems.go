package top

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/internal/health"
	"github.com/delaybridge/delaybridge/redisbridge"
)

const (
	// lateEnough is how overdue a message is in Redis that is a problem: one that is
	// being published may be there for a moment after it is due.
	lateEnough = time.Second
	// ownerWithin is how long a shard may be without an owner that is alive: bridges that
	// come and go hand shards over.
	ownerWithin = 5 * time.Second
	// takenWithin is how long messages may be due and not taken, and how long that has to
	// last: under load some always are.
	takenWithin = 15 * time.Second
	// emptyWithin is how long the inbox may hold messages without growing.
	emptyWithin = 10 * time.Second
)

// finder collects the problems there are.
type finder struct {
	b     *Book
	now   time.Time
	found []Problem
}

// findProblems returns the grave ones first.
func (b *Book) findProblems(p *Picture, now time.Time) []Problem {
	f := &finder{b: b, now: now, found: []Problem{}}
	f.away(p)
	if p.Redis.Answered.IsZero() {
		// nothing is known of bridges
	} else if !p.Redis.IsAway() {
		f.bridges(p)
		f.conditions(p)
	}
	f.policies(p)
	if !p.RabbitMQ.Answered.IsZero() && !p.RabbitMQ.IsAway() {
		f.queues(p)
	}
	slices.SortStableFunc(f.found, func(a, b Problem) int { return cmp.Compare(weight(a), weight(b)) })
	b.problems = map[string]Problem{}
	for _, problem := range f.found {
		b.problems[problem.Kind] = problem
	}
	return f.found
}

func weight(p Problem) int {
	if p.Grave {
		return 0
	}
	return 1
}

// add takes a problem, which is as old as it is known to be.
func (f *finder) add(p Problem) {
	if before, there := f.b.problems[p.Kind]; there && p.Since.IsZero() {
		p.Since = before.Since
	}
	if p.Since.IsZero() {
		p.Since = f.now
	}
	f.found = append(f.found, p)
}

// lasts reports whether something has been so for long enough.
func (f *finder) lasts(kind string, is bool, enough time.Duration) (since time.Time, long bool) {
	if !is {
		delete(f.b.doubts, kind)
		return time.Time{}, false
	}
	since, there := f.b.doubts[kind]
	if !there {
		since = f.now
		f.b.doubts[kind] = since
	}
	return since, f.now.Sub(since) >= enough
}

// away tells of sources that do not answer.
func (f *finder) away(p *Picture) {
	for _, one := range []struct {
		source Source
		state  SourceState
	}{{Redis, p.Redis}, {RabbitMQ, p.RabbitMQ}} {
		if one.state.IsAway() {
			f.add(Problem{
				Kind: "away: " + one.source.String(), Grave: true, Since: one.state.Since,
				Text: one.source.String() + " does not answer", Do: one.state.Reason,
			})
		}
	}
}

// conditions tells of what the bridges report, each once, and of what Redis has lost.
func (f *finder) conditions(p *Picture) {
	type reported struct {
		since  time.Duration
		detail string
	}
	all := map[health.Condition]reported{}
	for _, b := range f.b.redis.Stats.Bridges {
		for _, c := range b.Conditions {
			is := health.Condition(c.Condition)
			old := p.Now.Sub(b.At) + time.Duration(c.LastsMS)*time.Millisecond
			if before, there := all[is]; !there || old > before.since {
				all[is] = reported{max(0, old), c.Detail}
			}
		}
	}
	if loss := f.b.redis.Stats.Loss; loss != (redisbridge.Loss{}) {
		all[health.RedisLost] = reported{max(0, p.Now.Sub(loss.At)), loss.String()}
	}
	for _, is := range slices.Sorted(maps.Keys(all)) {
		if is == health.Policy && !p.Management.Answered.IsZero() && !p.Management.IsAway() {
			continue // seen with its own eyes
		}
		f.condition(is, f.now.Add(-all[is].since), all[is].detail)
	}
}

// condition adds one. A bridge of a later release may report what this one cannot explain.
func (f *finder) condition(is health.Condition, since time.Time, detail string) {
	text, do := cmp.Or(is.Means(), string(is)), is.Do()
	if detail != "" {
		text += " (" + detail + ")"
	}
	f.add(Problem{Kind: "condition: " + string(is), Grave: is.Grave() || is.Means() == "", Since: since, Text: text, Do: do})
}

// policies tells of what the management API shows.
func (f *finder) policies(p *Picture) {
	if drifts := f.b.flows.Overrides; len(drifts) > 0 && !p.Management.IsAway() {
		f.condition(health.Policy, time.Time{}, f.b.topology.Overridden(drifts)+"; by statistics up to 10 s old")
	}
}

func (f *finder) bridges(p *Picture) {
	if !p.OldestLate.IsZero() && p.Now.Sub(p.OldestLate) >= lateEnough {
		f.add(Problem{
			Kind: "overdue", Grave: true, Since: f.now.Add(-p.Now.Sub(p.OldestLate)),
			Text: "overdue in Redis since " + p.OldestLate.Local().Format(time.TimeOnly),
			Do:   "see the bridges' logs",
		})
	}
	alive := len(f.b.redis.Stats.Bridges)
	if alive == 0 {
		f.add(Problem{
			Kind: "no bridge", Grave: true, Text: "no bridge is alive", Do: "run 'delaybridge bridge'",
		})
	}
	var versions []string
	for _, one := range f.b.redis.Stats.Bridges {
		versions = append(versions, one.Version)
	}
	if releases := health.Releases(versions); releases != "" {
		f.add(Problem{Kind: "releases", Text: "bridges of different releases: " + releases, Do: "update those that are behind"})
	}
	if next := f.b.redis.Stats.NextShards; next > 0 {
		f.add(Problem{Kind: "resharding", Text: fmt.Sprintf("messages move to other shards: there are to be %d", next), Do: fmt.Sprintf("'delaybridge reshard %d' shows how far it is", next)})
	}
	var without []string
	for _, s := range p.Shards {
		since, long := f.lasts("owner "+s.Name, alive > 0 && !s.Alive, ownerWithin)
		if long && !since.IsZero() {
			without = append(without, s.Name)
		}
	}
	if len(without) > 0 {
		f.add(Problem{
			Kind: "no owner", Grave: true, Since: f.b.doubts["owner "+without[0]],
			Text: plural(len(without), "shard") + " without a bridge that is alive: " + strings.Join(without, ", "),
			Do:   "another one takes over within a minute",
		})
	}
}

func (f *finder) queues(p *Picture) {
	f.inbox(p)
	if n := p.Unrouted.Messages; n != nil && *n > 0 {
		f.add(Problem{
			Kind: "unrouted", Grave: true, Text: "unrouted: " + number(*n) + " that no queue is bound for",
			Do: "bind a queue to " + f.b.topology.ReadyExchange(),
		})
	}
	if n := p.Quarantine.Messages; n != nil && *n > 0 {
		f.add(Problem{Kind: "quarantine", Text: "quarantine: " + number(*n), Do: "see 'delaybridge quarantine list'"})
	}
	silent := f.b.broker.Counts.Silent
	if len(silent) > 0 {
		f.add(Problem{
			Kind: "silent", Grave: true, Text: plural(len(silent), "queue") + " of RabbitMQ without an answer: " + some(silent),
			Do: "has each a majority? 'rabbitmq-diagnostics cluster_status'",
		})
	}
	missing := 0
	for _, q := range f.b.topology.Queues() {
		if _, there := f.b.broker.Counts.Queues[q.Name]; !there && !slices.Contains(silent, q.Name) {
			missing++
		}
	}
	if missing > 0 {
		f.add(Problem{
			Kind: "missing", Grave: true, Text: plural(missing, "queue") + " missing",
			Do: "'delaybridge topology plan' names what is; a bridge puts it back",
		})
	}
	n, wait, _ := f.b.notTaken()
	if since, long := f.lasts("not taken", wait >= takenWithin && !p.Management.IsAway(), takenWithin); long {
		f.add(Problem{
			Kind: "not taken", Grave: true, Since: since, Text: number(n) + " due, and not taken by their queue",
			Do: "is it full, or without a leader?",
		})
	}
}

func (f *finder) inbox(p *Picture) {
	n := p.Inbox.Messages
	if n == nil {
		return
	}
	since, long := f.lasts("inbox", *n > 0, emptyWithin)
	if !long {
		return
	}
	text := "inbox: " + number(*n) + " wait to be parked"
	grave := false
	if grows := f.b.inboxDepth.change(); grows.Known && grows.PerSecond >= 1 {
		text, grave = "inbox grows: "+number(*n)+" wait, "+number(int(grows.PerSecond))+" more a second", true
	}
	f.add(Problem{
		Kind: "inbox", Grave: grave || len(f.b.redis.Stats.Bridges) == 0, Since: since, Text: text,
		Do: "see the bridges' logs",
	})
}

// some lists the first of a list.
func some(names []string) string {
	const most = 3
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " and " + number(len(names)-most) + " more"
	}
	return strings.Join(names, ", ")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return number(n) + " " + what + "s"
}
