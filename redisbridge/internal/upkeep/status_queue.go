package upkeep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
	"github.com/delaybridge/delaybridge/topology"
)

const (
	// showRest is how many times less often it looks while nothing changes, and
	// showWhole how many times less often it then looks at more than the running counts.
	showRest  = 3
	showWhole = 30
	// showLate is how late a message is that is worth mentioning.
	showLate = 5 * time.Second
	// showGone bounds what is said to the broker at the end.
	showGone = time.Second
)

// StatusConfig of a [StatusQueue].
type StatusConfig struct {
	Store    *store.Store
	Topology *topology.Topology
	Conn     *broker.Conn
	Bridge   string        // its ID
	Every    time.Duration // at most so often
	First    func() bool   // whether this bridge is the one that shows
	Logger   *slog.Logger
}

// StatusQueue shows in the management UI how much is parked and when the next message is
// due, where an operator looks first and without opening anything: in the list of
// queues, as the name of an empty queue. The queue is exclusive, so that the broker
// removes it with the bridge's connection, and what is shown never outlives the bridge that keeps it.
// One of the bridges has it.
type StatusQueue struct {
	config  StatusConfig
	turn    chan struct{} // who is alive has changed
	stirred chan struct{} // something was parked that is due earlier than all else
	ch      *amqp.Channel
	names   []string  // of the queues that may be there: the last is shown, others are to go
	status  status    // the last one
	counted string    // the running counts before that
	holds   time.Time // until when the status holds while these are the same
	away    time.Time // since when Redis has not answered
	looked  time.Time // when, the last time
	next    time.Time // when to look again
	refused bool      // the user may not declare the queue
	said    string    // the last fault that was logged
}

// NewStatusQueue does no I/O.
func NewStatusQueue(c StatusConfig) *StatusQueue {
	return &StatusQueue{config: c, turn: make(chan struct{}, 1), stirred: make(chan struct{}, 1)}
}

// MembersChanged says that other bridges are alive than before.
func (d *StatusQueue) MembersChanged() { signal(d.turn) }

// Stirred says that something was parked that is due earlier than all else.
func (d *StatusQueue) Stirred() { signal(d.stirred) }

// Run shows until ctx ends. It never fails: no message depends on it.
func (d *StatusQueue) Run(ctx context.Context) {
	for ctx.Err() == nil && !d.refused {
		wait := showRest * d.config.Every
		if d.config.First() {
			if !time.Now().Before(d.next) {
				d.look(ctx)
			}
			wait = time.Until(d.next)
		} else {
			d.hide(ctx)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-d.turn:
		case <-d.stirred:
			d.holds = time.Time{}
			if soon := d.looked.Add(d.config.Every); soon.Before(d.next) {
				d.next = soon
			}
		}
		timer.Stop()
	}
	d.hide(ctx)
}

// look renews what is shown.
func (d *StatusQueue) look(ctx context.Context) {
	every := d.config.Every
	bounded, cancel := context.WithTimeout(ctx, max(every, time.Second))
	defer cancel()
	counted, err := d.config.Store.RunningCounts(bounded)
	if err == nil && (counted != d.counted || time.Now().After(d.holds)) {
		err = d.overview(bounded, counted)
	}
	if ctx.Err() != nil {
		return
	}
	d.looked = time.Now()
	d.next = d.looked.Add(every)
	switch {
	case err == nil:
		d.away = time.Time{}
		if time.Now().Before(d.holds) {
			d.next = time.Now().Add(min(showRest*every, max(every, time.Until(d.holds))))
		}
	case d.away.IsZero():
		d.away = time.Now()
	}
	bounded, cancel = context.WithTimeout(ctx, max(every, time.Second))
	defer cancel()
	if err := d.show(bounded); err != nil {
		d.fail(ctx, err)
		return
	}
	d.said = ""
}

// overview looks at all that is shown. When nothing has changed since the last time, that
// holds until the next message is due.
func (d *StatusQueue) overview(ctx context.Context, counted string) error {
	var now time.Time
	var shards []store.Overview
	all, err := d.config.Store.Open(ctx)
	if err != nil {
		return err
	}
	for _, one := range all {
		shard, at, err := d.config.Store.Overview(ctx, one, now)
		if err != nil {
			return err
		}
		now, shards = at, append(shards, shard)
	}
	before := d.status
	d.status, d.counted, d.holds = sumUp(shards, now), counted, time.Time{}
	if d.status == before || !before.known {
		d.holds = time.Now().Add(d.status.rest(now, d.config.Every))
	}
	return nil
}

// show has a queue with today's name and no other. It declares the queue even if it
// should be there: it may have been deleted, or the connection is another one.
func (d *StatusQueue) show(ctx context.Context) error {
	if d.ch == nil || d.ch.IsClosed() {
		ch, err := d.config.Conn.Channel(ctx)
		if err != nil {
			return err
		}
		d.ch = ch
	}
	name := d.config.Topology.Shown(d.status.text(d.away))
	args := amqp.Table{
		"x-queue-type": "classic", // whatever the virtual host's default is: no other can be exclusive
		"about":        "No queue for messages: its name says how many wait in Redis, and when the next of all is due. A bridge keeps it up to date, and it goes with that bridge.",
		"shown by":     d.config.Bridge,
		"since":        time.Now().UTC().Format(time.RFC3339),
		"parked for":   cmp.Or(d.status.lanes, "none"),
	}
	if _, err := d.ch.QueueDeclare(name, false, false, true, false, args); err != nil {
		return err
	}
	d.names = append(slices.DeleteFunc(d.names, func(before string) bool { return before == name }), name)
	for len(d.names) > 1 {
		_, err := d.ch.QueueDelete(d.names[0], false, false, false)
		var refused *amqp.Error
		if err == nil || errors.As(err, &refused) && refused.Code == amqp.ResourceLocked { // another bridge's by now
			d.names = d.names[1:]
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hide takes away what is shown.
func (d *StatusQueue) hide(ctx context.Context) {
	ch, names := d.ch, d.names
	d.ch, d.names, d.next = nil, nil, time.Time{}
	if len(names) > 0 && ch.IsClosed() && ctx.Err() == nil {
		// The broker closes a channel over what it refuses, such as a queue that the next
		// bridge shows already. What this one has shown goes with its connection, not before.
		bounded, cancel := context.WithTimeout(ctx, showGone)
		defer cancel()
		if again, err := d.config.Conn.Channel(bounded); err == nil {
			ch = again
		}
	}
	if ch == nil || ch.IsClosed() {
		return
	}
	// Without waiting for an answer: a silent broker must not hold the bridge up.
	for _, name := range names {
		_, _ = ch.QueueDelete(name, false, false, true)
	}
	closed := make(chan struct{})
	go func() { // ends with the connection at the latest
		_ = ch.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(showGone):
	}
}

// fail says once why nothing is shown.
func (d *StatusQueue) fail(ctx context.Context, err error) {
	var closed *amqp.Error
	switch {
	case !errors.As(err, &closed) || !closed.Server:
		return // the connection is lost, and comes back
	case closed.Code == amqp.ResourceLocked:
		// The bridge before this one is not gone yet, or the next one was quicker.
		d.config.Logger.DebugContext(ctx, "another bridge shows what is parked", "error", err)
		return
	}
	d.refused = closed.Code == amqp.AccessRefused
	d.next = time.Now().Add(showRest * d.config.Every)
	if d.said != err.Error() {
		d.said = err.Error()
		d.config.Logger.InfoContext(ctx, "the management UI does not show what is parked", "error", err,
			"remedy", "grant configure for '^"+d.config.Topology.Prefix()+"\\..*', or have the bridge show nothing (Config.ShowEvery, --show-every 0)")
	}
}

// status is what there is to tell.
type status struct {
	known     bool
	parked    int
	next      time.Time // of all messages; zero is none
	lateSince time.Time // zero unless something is late
	lanes     string    // parked, by lane
}

func sumUp(shards []store.Overview, now time.Time) status {
	s := status{known: true}
	byLane := map[time.Duration]int{}
	for _, shard := range shards {
		for lane, n := range shard.Parked {
			byLane[lane] += n
			s.parked += n
		}
		s.next, s.lateSince = earlier(s.next, shard.NextDue), earlier(s.lateSince, shard.OldestLate)
	}
	if now.Sub(s.lateSince) < showLate {
		s.lateSince = time.Time{}
	}
	var lanes []string
	for _, lane := range slices.Sorted(maps.Keys(byLane)) {
		where := "straight to ready"
		if lane > 0 {
			where = "lane " + wire.TTLName(lane)
		}
		lanes = append(lanes, where+": "+humanize.Comma(int64(byLane[lane])))
	}
	s.lanes = strings.Join(lanes, ", ")
	return s
}

// earlier returns the earlier one; zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// rest is how long nothing will change by itself, at most.
func (s status) rest(now time.Time, every time.Duration) time.Duration {
	rest := showWhole * every
	if !s.next.IsZero() {
		rest = min(rest, s.next.Sub(now)+time.Second)
	}
	return max(rest, every)
}

// text is what the list of queues shows.
func (s status) text(away time.Time) string {
	figures := humanize.Comma(int64(s.parked)) + " parked in Redis"
	if !away.IsZero() {
		unknown := fmt.Sprintf("unknown since %s how many are parked, as Redis does not answer", instantText(away))
		if s.known {
			unknown += "; before: " + figures
		}
		return unknown
	}
	if s.next.IsZero() {
		figures += ", nothing due"
	} else {
		figures += ", next due " + instantText(s.next)
	}
	if !s.lateSince.IsZero() {
		figures += ", late since " + instantText(s.lateSince)
	}
	return figures
}

func instantText(at time.Time) string { return at.UTC().Format(time.RFC3339) }
