package redisbridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/delaybridge/delaybridge/internal/tracing"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
)

// Outcome is what cancelling or rescheduling a message came to.
type Outcome string

// The outcomes.
const (
	// OutcomeDone: a message waited. It is cancelled, or has its new due time. Where the
	// broker had it already, its consumer drops what comes out of it.
	OutcomeDone Outcome = "done"
	// OutcomeCancelledBefore: the message was cancelled before.
	OutcomeCancelledBefore Outcome = "cancelled before"
	// OutcomeDelivered: it is too late; a consumer has taken the message.
	OutcomeDelivered Outcome = "delivered"
	// OutcomeRecorded: no message with the ID waits in Redis. If one is on its way, in the
	// inbox, in a tier or in its consumer's queue, it is dropped when it arrives, or
	// parked again until its new due time, until Change.Until: by a bridge, or by a
	// consumer that asks [Park.Arrive].
	OutcomeRecorded Outcome = "recorded"
)

// A Change is what [Park.Cancel] and [Park.Reschedule] return.
type Change struct {
	ID      string
	Outcome Outcome
	// At is when the message was cancelled or delivered; otherwise now. By Redis' clock.
	At time.Time
	// Due is when the message is or was due; zero where that is unknown.
	Due time.Time
	// Messages is how many messages with the ID the outcome is true of: those that have
	// other content than the first one count, too. Where several outcomes are, it is the
	// first of OutcomeDone, OutcomeRecorded, OutcomeCancelledBefore and OutcomeDelivered.
	Messages int
	// Until is until when what was cancelled is known to be, and what was OutcomeRecorded holds;
	// zero otherwise.
	Until time.Time

	done string // in the words of who asked for the change: what OutcomeDone is
}

// MarshalJSON writes what 'delaybridge cancel -o json' and 'delaybridge reschedule -o json' print, and
// what these commands are answered with over AMQP.
func (c Change) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		ID       string    `json:"id"`
		Outcome  string    `json:"outcome"`
		Messages int       `json:"messages,omitempty"`
		At       time.Time `json:"at,omitzero"`
		Due      time.Time `json:"due,omitzero"`
		Until    time.Time `json:"until,omitzero"`
	}{c.ID, wordFor(c.Outcome, c.done), c.Messages, c.At.UTC(), c.Due.UTC(), c.Until.UTC()})
}

// doneWords are what OutcomeDone is in the words of who asked for a change, by its step.
var doneWords = map[string]string{tracing.Cancel: "cancelled", tracing.Reschedule: "rescheduled"} //nolint:gochecknoglobals // a constant in all but the language's eyes

// wordFor is the word for an outcome in JSON.
func wordFor(o Outcome, done string) string {
	switch o {
	case OutcomeDone:
		return done
	case OutcomeDelivered:
		return "too late"
	default:
		return string(o)
	}
}

func changeOf(c store.Change) Change {
	outcomes := map[store.Outcome]Outcome{
		store.Done: OutcomeDone, store.CancelledBefore: OutcomeCancelledBefore, store.WasDelivered: OutcomeDelivered, store.Recorded: OutcomeRecorded,
	}
	return Change{Outcome: outcomes[c.Outcome], At: c.At, Due: c.Due, Messages: c.Messages, Until: c.Until}
}

// Cancel sees to it that the messages with an ID have no effect, and says truthfully
// whether it came in time. What waits in Redis leaves it. What the broker has already, and
// what Redis has never seen, is dropped by its consumer when it comes out, if that asks
// [Park.Arrive]. Publishing the ID again has no effect until Change.Until:
// ParkConfig.Tombstones after the message would have been due, and where nothing is known of it,
// after the longest tier.
//
// After an error that wraps ErrUnconfirmed the outcome is unknown; calling it again is
// harmless.
func (p *Park) Cancel(ctx context.Context, id string) (Change, error) {
	change, err := p.change(ctx, tracing.Cancel, id, func() (store.Change, error) {
		return p.store.Cancel(ctx, p.entryName, id, p.tracer != nil)
	})
	if err != nil {
		return Change{}, fmt.Errorf("cancel message %s: %w", id, err)
	}
	return change, nil
}

// Reschedule gives a message another due time, earlier or later, and says truthfully
// whether it came in time. An instant that has passed is now. Where the broker has the
// message already it is parked again, as another version, and the consumer drops the
// one that comes out at the old time, if it asks [Park.Arrive]. Of a message that went
// straight into a tier nothing is known, and the outcome is OutcomeRecorded: its consumer parks it
// again when it comes, or handles it if the new time has passed by then. So it cannot be
// brought forward.
//
// The error wraps ErrInvalid where w is out of bounds. After one that wraps
// ErrUnconfirmed it is unknown which due time counts; calling it again is harmless.
func (p *Park) Reschedule(ctx context.Context, id string, w message.When) (Change, error) {
	if err := w.Validate(time.Now()); err != nil {
		return Change{}, fmt.Errorf("reschedule message %s: %w: %w", id, ErrInvalid, err)
	}
	change, err := p.change(ctx, tracing.Reschedule, id, func() (store.Change, error) {
		return p.store.Reschedule(ctx, p.entryName, id, w, p.tracer != nil)
	})
	if err != nil {
		return Change{}, fmt.Errorf("reschedule message %s: %w", id, err)
	}
	return change, nil
}

// change changes what is known of an ID, and records a span of that name if there is a
// tracer.
func (p *Park) change(ctx context.Context, step, id string, do func() (store.Change, error)) (Change, error) {
	began := time.Now()
	changed, err := do()
	change := changeOf(changed)
	change.ID, change.done = id, doneWords[step]
	if p.tracer != nil {
		p.traceChange(ctx, tracing.Step{Name: step, Began: began}, id, changed.Headers, change, err)
	}
	return change, err
}

// A GroupChange is what [Park.CancelGroup] and [Park.RescheduleGroup] return.
type GroupChange struct {
	Group string
	// Outcomes has how many messages came to each outcome.
	Outcomes map[Outcome]int

	done string
}

// MarshalJSON writes what 'delaybridge cancel --group' and 'delaybridge reschedule --group' print with
// -o json, and what these commands are answered with over AMQP.
func (g GroupChange) MarshalJSON() ([]byte, error) {
	messages, outcomes := 0, map[string]int{}
	for outcome, n := range g.Outcomes {
		messages += n
		outcomes[wordFor(outcome, g.done)] += n
	}
	return json.Marshal(struct {
		Group    string         `json:"group"`
		Messages int            `json:"messages"`
		Outcomes map[string]int `json:"outcomes"`
	}{g.Group, messages, outcomes})
}

// Group calls yield for the ID of each message that Redis knows to have been parked with a group
// (header x-delay-group), until it returns false: those that wait, in Redis or in a lane, and some that
// do not any more. A message that the broker alone delays never was in Redis and is not among them, nor
// is a retry. An ID may come twice while messages are parked.
func (p *Park) Group(ctx context.Context, group string, yield func(id string) bool) error {
	return p.store.Group(ctx, p.entryName, group, yield)
}

// CancelGroup cancels each message of a group, as [Park.Cancel] does. After an error some of them are
// cancelled; calling it again is harmless.
func (p *Park) CancelGroup(ctx context.Context, group string) (GroupChange, error) {
	return p.changeGroup(ctx, group, doneWords[tracing.Cancel], p.Cancel)
}

// RescheduleGroup gives each message of a group another due time, as [Park.Reschedule] does. After an
// error some of them have it.
func (p *Park) RescheduleGroup(ctx context.Context, group string, w message.When) (GroupChange, error) {
	if err := w.Validate(time.Now()); err != nil {
		return GroupChange{}, fmt.Errorf("reschedule group %s: %w: %w", group, ErrInvalid, err)
	}
	return p.changeGroup(ctx, group, doneWords[tracing.Reschedule], func(ctx context.Context, id string) (Change, error) {
		return p.Reschedule(ctx, id, w)
	})
}

func (p *Park) changeGroup(ctx context.Context, group, done string, change func(context.Context, string) (Change, error)) (GroupChange, error) {
	g := GroupChange{Group: group, Outcomes: map[Outcome]int{}, done: done}
	var mu sync.Mutex
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(idsAtOnce)
	seen := map[string]bool{}
	err := p.Group(ctx, group, func(id string) bool {
		if seen[id] {
			return true
		}
		seen[id] = true
		work.Go(func() error {
			c, err := change(ctx, id)
			if err == nil {
				mu.Lock()
				g.Outcomes[c.Outcome] += max(1, c.Messages)
				mu.Unlock()
			}
			return err
		})
		return ctx.Err() == nil
	})
	return g, errors.Join(work.Wait(), err)
}

// An Erasure is what [Park.Erase] returns, and a line of 'delaybridge erase'.
type Erasure struct {
	ID    string `json:"id"`
	Entry string `json:"entry,omitempty"`
	// Places say what was removed, and where the message may still be.
	Places []ErasurePlace `json:"places"`
	// Until is from when no consumer can meet the message any more; zero where none can already.
	Until time.Time `json:"until,omitzero"`
}

// An ErasurePlace is where a message was, or may still be.
type ErasurePlace struct {
	// Place is one word, such as redis, lane or backups.
	Place string `json:"place"`
	// Queue is that of RabbitMQ, where it is known.
	Queue string `json:"queue,omitempty"`
	// Removed is how many messages, and notes about them, were removed there.
	Removed int `json:"removed,omitempty"`
	// Until is until when the message may be there; zero where it is not, or Note says more.
	Until time.Time `json:"until,omitzero"`
	Note  string    `json:"note,omitempty"`
	// Error is why the place could not be reached.
	Error string `json:"error,omitempty"`
}

// Erase removes the messages of an entry with an ID from Redis: those that wait, their retries, their membership
// of groups, and what is remembered of those that were delivered or cancelled. What the broker has stays there: a
// tombstone with the ID and the instant of the call alone makes its consumer drop it, if that asks [Park.Arrive],
// until Erasure.Until. The same goes for an ID of which nothing is known, since its message may be in a tier or
// in the inbox. Quarantine and unrouted queues are not looked at.
//
// A message with the ID that is published later is a new message, or has no effect while there is a tombstone. A
// consumer that has a message of it when it is erased may still have it tried again.
//
// It looks for retries in all shards, among what goes into no lane and what is remembered: a million of those take
// some seconds. After an error some may be removed; calling it again is harmless.
func (p *Park) Erase(ctx context.Context, id string) (Erasure, error) {
	erased, err := p.store.Erase(ctx, p.entryName, id)
	if err != nil {
		return Erasure{}, fmt.Errorf("erase message %s: %w", id, err)
	}
	e := Erasure{ID: id, Entry: p.entryName, Until: erased.Until}
	e.add(ErasurePlace{Place: "redis", Removed: len(erased.Messages)})
	if !erased.Until.IsZero() {
		e.add(ErasurePlace{Place: "tombstone", Until: erased.Until, Note: "Redis keeps the ID alone, so that its consumer drops what comes"})
		p.placesWithBroker(&e, &erased)
		e.add(ErasurePlace{Place: "broker-files", Note: "RabbitMQ's files, until it compacts them"})
	}
	e.add(ErasurePlace{Place: "append-only-file", Note: "that of Redis, until it is rewritten: BGREWRITEAOF does so at once"})
	e.add(ErasurePlace{Place: "backups", Note: "and snapshots, exports and dumps: until you remove them; replicas of Redis follow by themselves"})
	e.add(ErasurePlace{Place: "logs", Note: "and traces: the ID, until they are rotated"})
	e.add(ErasurePlace{Place: "audit-log", Note: "the IDs that actions named, until 10,000 later records"})
	e.add(ErasurePlace{Place: "consumers", Note: "what they have done and noted down, their ledgers too"})
	return e, nil
}

func (e *Erasure) add(p ErasurePlace) { e.Places = append(e.Places, p) }

// placesWithBroker names the queues that may have copies.
func (p *Park) placesWithBroker(e *Erasure, erased *store.Erased) {
	known := false
	for _, m := range erased.Messages {
		isOut := m.Was == store.ErasedWithBroker && !m.Due.After(erased.Now)
		if known = known || isOut; isOut || m.Lane == 0 || m.Was != store.ErasedWithBroker && m.Was != store.ErasedPromoting {
			continue
		}
		known = true
		e.add(ErasurePlace{Place: "lane", Queue: p.config.Topology.LaneOf(p.entryName, m.Lane, m.Shard), Until: m.Due})
	}
	if !known {
		e.add(ErasurePlace{Place: "tier", Until: erased.Until, Note: "or a lane, or the inbox"})
	}
	e.add(ErasurePlace{Place: "consumer-queue", Until: erased.Until, Note: "dropped by a consumer that asks Redis; another one handles it"})
}
