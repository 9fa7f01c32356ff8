package redisbridge

import (
	"context"
	"fmt"
	"time"

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
	if p.tracer != nil {
		p.traceChange(ctx, tracing.Step{Name: step, Began: began}, id, changed.Headers, change, err)
	}
	return change, err
}
