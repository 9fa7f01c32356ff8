package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// silentAfter is how long a target may take to answer before it is silent: nothing
	// more is sent there until it answers.
	silentAfter = 2 * time.Second
	// QueueBound is how many messages for one queue may wait for their answer on a
	// channel, less one, before RabbitMQ takes no more from that channel, for any queue:
	// quorum_commands_soft_limit of rabbit_fifo_client, 32 in RabbitMQ 3.10 to 4.3.
	QueueBound = 31
)

// ErrSilent means that a target answers nothing: its queue has no majority, say.
var ErrSilent = errors.New("the queue behind it answers nothing; has it a majority? 'rabbitmq-diagnostics cluster_status'")

// Target is where messages go that wait for the same queue, as far as a publisher knows:
// an exchange that leads to one queue, or a routing key of one that leads to many.
type Target struct{ Exchange, Key string }

// Unanswered bounds, for each target, the messages that wait for the broker's answer, so
// that a target that answers nothing holds up no other one.
type Unanswered struct {
	mu      sync.Mutex
	of      map[Target]*waiting
	changed chan struct{} // closed with the next answer; nil where no caller waits for one
}

type waiting struct {
	n     int
	since time.Time // of the last answer, or of the first message that has none
}

func (w *waiting) silent(now time.Time) time.Duration {
	if silence := now.Sub(w.since); w.n > 0 && silence >= silentAfter {
		return silence
	}
	return 0
}

// NewUnanswered returns one of no messages.
func NewUnanswered() *Unanswered { return &Unanswered{of: map[Target]*waiting{}} }

// Admit counts a message in for t, once fewer than most are there and t is not silent.
// It waits as long as ctx allows. [Unanswered.Answered] counts it out.
func (u *Unanswered) Admit(ctx context.Context, t Target, most int) error {
	silence, err := u.admit(ctx, t, most, true)
	if err != nil && silence > 0 {
		return fmt.Errorf("exchange %s, routing key %q, for %v: %w: %w", t.Exchange, t.Key, silence.Truncate(time.Second), ErrSilent, err)
	}
	return err
}

// AdmitUnlessSilent is Admit, but does not wait for a silent target: it returns at once for
// how long t has been silent.
func (u *Unanswered) AdmitUnlessSilent(ctx context.Context, t Target, most int) (silence time.Duration, err error) {
	return u.admit(ctx, t, most, false)
}

// admit waits for a silent target only if it is patient.
func (u *Unanswered) admit(ctx context.Context, t Target, most int, patient bool) (silence time.Duration, err error) {
	for {
		silence, wait, changed := u.try(t, most)
		if changed == nil || silence > 0 && !patient {
			return silence, nil
		}
		select {
		case <-changed:
		case <-time.After(wait):
		case <-ctx.Done():
			return silence, ctx.Err()
		}
	}
}

// TryAdmit is Admit that does not wait.
func (u *Unanswered) TryAdmit(t Target, most int) bool {
	_, _, changed := u.try(t, most)
	return changed == nil
}

// try counts a message in, or says for how long the target has been silent, when to look
// again at the latest, and what tells of answers.
func (u *Unanswered) try(t Target, most int) (silence, wait time.Duration, changed <-chan struct{}) {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	w := u.of[t]
	if w == nil {
		w = &waiting{since: now}
		u.of[t] = w
	}
	silence = w.silent(now)
	if silence == 0 && w.n < most {
		w.n++
		return 0, 0, nil
	}
	if u.changed == nil {
		u.changed = make(chan struct{})
	}
	return silence, max(silentAfter-now.Sub(w.since), time.Second), u.changed
}

// Answered counts a message out that was admitted.
func (u *Unanswered) Answered(t Target) { u.out(t, true) }

// Withdraw counts a message out that was admitted and not sent.
func (u *Unanswered) Withdraw(t Target) { u.out(t, false) }

func (u *Unanswered) out(t Target, answered bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	w := u.of[t]
	w.n--
	if answered {
		w.since = time.Now()
	}
	if w.n == 0 {
		delete(u.of, t)
	}
	if u.changed != nil {
		close(u.changed)
		u.changed = nil
	}
}

// Silence returns for how long t has been silent, or 0.
func (u *Unanswered) Silence(t Target) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	if w := u.of[t]; w != nil {
		return w.silent(time.Now())
	}
	return 0
}

// Silence is that of a target which has messages without an answer.
type Silence struct {
	Target
	Messages int
	For      time.Duration // since its last answer, or its first message without one
}

// Longest returns the longest silence there is, or the zero value where nothing waits.
func (u *Unanswered) Longest() (longest Silence) {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	for t, w := range u.of {
		if silence := now.Sub(w.since); w.n > 0 && silence > longest.For {
			longest = Silence{t, w.n, silence}
		}
	}
	return longest
}

// Silent returns how many messages wait for an answer from silent targets.
func (u *Unanswered) Silent() (n int) {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, w := range u.of {
		if w.silent(now) > 0 {
			n += w.n
		}
	}
	return n
}
