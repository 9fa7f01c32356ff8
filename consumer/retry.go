package consumer

import (
	"math"
	"time"

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
