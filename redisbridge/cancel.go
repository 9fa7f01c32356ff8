package redisbridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/tracing"
	"github.com/delaybridge/delaybridge/message"
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
}

// changeOf reads what the scripts return, whose codes are those of outcomes, and the
// envelope where that is with it.
func changeOf(answer []any) (_ Change, envelope string, _ error) {
	r := reply{rest: answer}
	code, at, due, messages, until := r.int(), r.int(), r.int(), r.int(), r.int()
	outcomes := map[int64]Outcome{1: OutcomeDone, 2: OutcomeCancelledBefore, 3: OutcomeDelivered, 4: OutcomeRecorded}
	outcome, known := outcomes[code]
	if !known {
		r.fail("outcome %d has no meaning", code)
	}
	if len(r.rest) > 0 {
		envelope = r.string()
	}
	return Change{Outcome: outcome, At: instantOf(at), Due: instantOf(due), Messages: int(messages), Until: instantOf(until)}, envelope, r.err
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
	change, err := p.change(ctx, tracing.Cancel, id, func(k shardKeys, key string) (*redis.Script, []string, []any) {
		tiers := p.config.Topology.Tiers()
		unknown := p.config.Tombstones + tiers[len(tiers)-1].TTL
		return p.scripts.cancel, []string{k.schedule, k.claimed, k.envelopes, k.kept},
			append([]any{key, p.config.Tombstones.Milliseconds(), unknown.Milliseconds(), p.traces()}, p.leads...)
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
	relative, ms := 0, int64(0)
	if delay, ok := w.Relative(); ok {
		relative, ms = 1, delay.Milliseconds()
	} else {
		instant, _ := w.Instant()
		ms = max(0, instant.UnixMilli())
	}
	change, err := p.change(ctx, tracing.Reschedule, id, func(k shardKeys, key string) (*redis.Script, []string, []any) {
		return p.scripts.reschedule, []string{k.schedule, k.state, k.claimed, k.envelopes, k.kept},
			append([]any{wakeChannel(p.config.Topology), k.number, key, relative, ms, p.config.Tombstones.Milliseconds(), p.traces()}, p.leads...)
	})
	if err != nil {
		return Change{}, fmt.Errorf("reschedule message %s: %w", id, err)
	}
	return change, nil
}

// changeCall returns the script that changes what is known of an ID, and what it takes.
type changeCall func(_ shardKeys, key string) (*redis.Script, []string, []any)

// change runs a script, and records a span of that name if there is a tracer.
func (p *Park) change(ctx context.Context, step, id string, call changeCall) (Change, error) {
	if p.tracer == nil {
		change, _, err := p.changeNow(ctx, id, call)
		return change, err
	}
	began := time.Now()
	change, envelope, err := p.changeNow(ctx, id, call)
	p.traceChange(ctx, tracing.Step{Name: step, Began: began}, id, envelope, change, err)
	return change, err
}

func (p *Park) changeNow(ctx context.Context, id string, call changeCall) (_ Change, envelope string, _ error) {
	if err := checkID(id); err != nil {
		return Change{}, "", err
	}
	if err := p.check(ctx); err != nil {
		return Change{}, "", err
	}
	key := keyOf(p.entryName, id)
	shard, _ := locate(key, len(p.keys))
	script, keys, args := call(p.keys[shard], key)
	answer, err := script.Run(ctx, p.config.Client, keys, args...).Slice()
	if err != nil {
		return Change{}, "", classify(err)
	}
	change, envelope, err := changeOf(answer)
	if err != nil {
		return Change{}, "", errors.Join(ErrUnconfirmed, err)
	}
	return change, envelope, nil
}
