package consumer

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/delaybridge/delaybridge/consumer/internal/unsettled"
	"github.com/delaybridge/delaybridge/internal/defaults"
	"github.com/delaybridge/delaybridge/message"
)

// Defaults of [Retry] of a consumer without a Delayer, in whose hands all pauses must fit into
// the broker's consumer_timeout. The others are those of package defaults.
const (
	defaultHeldCap      = time.Minute
	defaultHeldAttempts = 20
)

// Retry says how often a message is handled before it is quarantined, and how long
// it waits in between. The zero value is the default: sixty attempts, after pauses of
// 1 s, 2 s, 4 s and so on up to an hour, give or take a half: over at least a day. Of a
// consumer without a Delayer it is twenty attempts, after pauses of up to a minute.
type Retry struct {
	// Base is the pause before the second attempt. Defaults to 1 s.
	Base time.Duration
	// Factor is by what the pause grows from attempt to attempt, at least 1.
	// Defaults to 2.
	Factor float64
	// Cap is the longest pause; [RetryAfter] may ask for a longer one. At least Base, and at most
	// message.MaxDelay. Defaults to an hour, without a Delayer to a minute,
	// or to Base where that is more.
	Cap time.Duration
	// Jitter is the share of a pause by which it is made longer or shorter at
	// random, so that what has failed together does not come back together. Up to 1,
	// and negative for none. Defaults to 0.5.
	Jitter float64
	// Attempts is how often a message is handled before it is quarantined, counted
	// over all consumers of the queue. What fails before the handler, such as a ledger
	// that cannot be reached, is no attempt. Defaults to 60, without a
	// Delayer to 20.
	Attempts int
}

// Pause returns how long a message waits after that many failed attempts. random is a
// random number from 0 to 1.
func (r Retry) Pause(failed int, random float64) time.Duration {
	r = r.withDefaults()
	most := float64(r.Cap)
	pause := min(most, float64(r.Base)*math.Pow(r.Factor, float64(max(failed, 1)-1)))
	pause = min(most, pause*(1+max(r.Jitter, 0)*(2*random-1)))
	return min(r.Cap, time.Duration(pause)) // most may be rounded up
}

// Held returns r with the defaults of a consumer without a Delayer where that has others.
func (r Retry) Held() Retry {
	if r.Cap == 0 {
		r.Cap = max(defaultHeldCap, r.Base)
	}
	if r.Attempts == 0 {
		r.Attempts = defaultHeldAttempts
	}
	return r
}

func (r Retry) withDefaults() Retry {
	if r.Base == 0 {
		r.Base = defaults.RetryBase
	}
	if r.Factor == 0 {
		r.Factor = defaults.RetryFactor
	}
	if r.Cap == 0 {
		r.Cap = max(defaults.RetryCap, r.Base)
	}
	if r.Jitter == 0 {
		r.Jitter = defaults.RetryJitter
	}
	if r.Attempts == 0 {
		r.Attempts = defaults.RetryAttempts
	}
	return r
}

func (r Retry) faults(fault func(format string, args ...any)) {
	if r.Base < 0 {
		fault("Retry.Base %v: must not be negative", r.Base)
	}
	if !(r.Factor >= 1) || math.IsInf(r.Factor, 0) { // not a number is neither
		fault("Retry.Factor %v: use at least 1", r.Factor)
	}
	if r.Cap < r.Base || r.Cap > message.MaxDelay {
		fault("Retry.Cap %v: use at least Retry.Base (%v) and at most %v", r.Cap, r.Base, message.MaxDelay)
	}
	if !(r.Jitter <= 1) { // not a number is neither
		fault("Retry.Jitter %v: use at most 1, or less than 0 for none", r.Jitter)
	}
	if r.Attempts < 1 {
		fault("Retry.Attempts %d: use at least 1", r.Attempts)
	}
}

// Delayer has a message come back to the queue m.Journey.Queue after d, and to no
// other: by the topology's retry exchange, as m.Retry returns it. It returns nil once
// the message is safe, and only then the consumer acknowledges it. After an error it
// is called again. *redisbridge.Park is one.
type Delayer interface {
	Delay(ctx context.Context, m *message.Message, d time.Duration) error
}

// pause returns how long a message that has failed waits for its next attempt, and
// false where it was the last one. What waits in the consumer must be done with before the
// broker takes it back, which would have its attempts count anew.
func (s *session) pause(h *unsettled.Delivery, o *Observation) (time.Duration, bool) {
	_, rejected := errors.AsType[*rejection](o.Err)
	_, patient := errors.AsType[*patience](o.Err)
	if rejected || o.Attempts >= s.config.Retry.Attempts && !patient {
		return 0, false
	}
	pause := s.config.Retry.Pause(o.Attempts, rand.Float64()) //nolint:gosec // it keeps no secret
	if postponed, ok := errors.AsType[*postponement](o.Err); ok {
		pause = max(0, postponed.pause)
	}
	if s.config.Delayer == nil {
		left := s.held.LeftForRetry(h)
		if left <= 0 {
			return 0, false
		}
		pause = min(pause, left)
	}
	s.log.Warn("handling a message failed", "id", o.Message.ID, "attempt", o.Attempts, "error", o.Err, "retry_in", pause)
	return pause, true
}

// delay gives the message to the Delayer, however long it takes that to have it. It
// gives up only when the message was held for as long as it may, has returned to its queue
// anyway, or Run ends.
func (s *session) delay(ctx context.Context, h *unsettled.Delivery, o *Observation) Outcome {
	m := s.config.Topology.Message(h.Delivery) // as it came, whatever the handler has done
	m.Journey = o.Message.Journey
	wait := s.noDelayer.NewWait(maxBackoff, nil)
	defer wait.Gone()
	for {
		err := s.config.Delayer.Delay(ctx, &m, max(0, time.Until(o.RetryAt)))
		if err == nil {
			wait.Over(s.log)
			return Delayed
		}
		if h.Wanted.Err() != nil || !s.idle(h, wait.Failed(s.log, m.ID, err)) {
			return Returned
		}
	}
}
