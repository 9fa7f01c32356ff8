package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// Publisher publishes messages. *producer.Producer is one.
type Publisher interface {
	Publish(ctx context.Context, m message.Message, w message.When) (producer.Receipt, error)
}

// RelayConfig of a [Relay].
type RelayConfig struct {
	// Store is the outbox. Required.
	Store Store
	// Publisher sends messages, and must be running. Required.
	Publisher Publisher
	// Park cancels and reschedules. Without one, rows that ask for that are set aside.
	Park *redisbridge.Park
	// Poll is how often a database is asked for rows that cannot tell of them: all but
	// PostgreSQL. Defaults to one second.
	Poll time.Duration
	// Batch is how many rows are sent at a time, by each worker, 1 to 1000. Defaults to 200.
	Batch int
	// Workers is how many batches are on their way at a time, so that a row whose queue
	// answers nothing holds up no others. Each takes a connection to the database. Defaults
	// to 4.
	Workers int
	// Timeout bounds the sending of a row, up to 20 s. One that has no answer by then is sent
	// again. Defaults to ten seconds.
	Timeout time.Duration
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// Defaults returns a RelayConfig with all defaults that are values.
func Defaults() RelayConfig {
	return RelayConfig{Poll: time.Second, Batch: 200, Workers: 4, Timeout: 10 * time.Second}
}

// Bounds of [RelayConfig]: a long transaction holds up the vacuum, and an outbox without one
// holds a row for half a minute.
const (
	maxBatch   = 1000
	maxTimeout = 20 * time.Second
)

// Stats counts what a relay has done since it began.
type Stats struct {
	Published, Cancelled, Rescheduled int64
	// Dropped is what was not published, since its ID was cancelled before.
	Dropped int64
	// SetAside is how many rows could never be sent.
	SetAside int64
	// Retried is how often a row had to be tried again.
	Retried int64
}

type counts struct {
	published, cancelled, rescheduled, dropped, setAside, retried atomic.Int64
}

// Relay sends what is in an outbox. Any number of them, in as many processes, share the work.
// Make one with [NewRelay].
type Relay struct {
	config  RelayConfig
	wake    chan struct{} // as many as workers that are to look for rows
	counted counts
	down    atomic.Bool // the database was, the last time
	stuck   atomic.Bool // no server could be reached, the last time
}

// NewRelay checks c, and reports every fault at once. It does no I/O.
func NewRelay(c RelayConfig) (*Relay, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("outbox: "+format, args...)) }
	if c.Store == nil {
		fault("RelayConfig.Store is missing")
	}
	if c.Publisher == nil {
		fault("RelayConfig.Publisher is missing")
	}
	d := Defaults()
	if c.Poll == 0 {
		c.Poll = d.Poll
	}
	if c.Batch == 0 {
		c.Batch = d.Batch
	}
	if c.Workers == 0 {
		c.Workers = d.Workers
	}
	if c.Timeout == 0 {
		c.Timeout = d.Timeout
	}
	if c.Poll < 0 {
		fault("RelayConfig.Poll is %v: must not be negative", c.Poll)
	}
	if c.Timeout < 0 || c.Timeout > maxTimeout {
		fault("RelayConfig.Timeout is %v: use up to %v", c.Timeout, maxTimeout)
	}
	if c.Batch < 1 || c.Batch > maxBatch {
		fault("RelayConfig.Batch is %d: use 1 to %d", c.Batch, maxBatch)
	}
	if c.Workers < 1 {
		fault("RelayConfig.Workers is %d: use 1 or more", c.Workers)
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return &Relay{config: c, wake: make(chan struct{}, c.Workers)}, nil
}

// Stats returns what the relay has done.
func (r *Relay) Stats() Stats {
	c := &r.counted
	return Stats{
		Published: c.published.Load(), Cancelled: c.cancelled.Load(), Rescheduled: c.rescheduled.Load(),
		Dropped: c.dropped.Load(), SetAside: c.setAside.Load(), Retried: c.retried.Load(),
	}
}

// Check returns nil while the database answers.
func (r *Relay) Check() error {
	if r.down.Load() {
		return errors.New("outbox: the database does not answer")
	}
	return nil
}

// Run sends rows until ctx ends. Then it lets finish what is being sent, which takes no longer
// than RelayConfig.Timeout, and returns nil. While the database, RabbitMQ or Redis is away it
// tries again.
func (r *Relay) Run(ctx context.Context) error {
	var all sync.WaitGroup
	all.Go(func() {
		for ctx.Err() == nil {
			if err := r.config.Store.Listen(ctx, r.config.Poll, r.wakeOne); err != nil && ctx.Err() == nil {
				r.away(err)
				rest(ctx, restPause)
			}
		}
	})
	for range r.config.Workers {
		all.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-r.wake:
					r.drain(ctx)
				}
			}
		})
	}
	all.Wait()
	return nil
}

// wakeOne has a worker look for rows, or look once more.
func (r *Relay) wakeOne() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// restPause is how long a worker rests where the database or all servers were away.
const restPause = time.Second

// drain sends batches until there is nothing to send, or nothing can be sent.
func (r *Relay) drain(ctx context.Context) {
	for ctx.Err() == nil {
		n, held, err := r.batch(ctx)
		switch {
		case err != nil:
			r.away(err)
			rest(ctx, restPause)
		case held > 0 && held == n:
			rest(ctx, restPause)
		case n == 0:
			r.answered()
			return
		default:
			r.answered()
			if n == r.config.Batch {
				r.wakeOne() // there is more than one worker's work
			}
		}
	}
}

// takeTimeout bounds what the database does for a batch.
const takeTimeout = 20 * time.Second

// batch sends one batch of n rows, for held of which no server could be reached.
func (r *Relay) batch(ctx context.Context) (n, held int, err error) {
	// What has been sent is noted down, though ctx has ended meanwhile.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.config.Timeout+takeTimeout)
	defer cancel()
	n, err = r.config.Store.Take(ctx, r.config.Batch, func(ctx context.Context, rows []Row) []Sent {
		all := r.sendAll(ctx, rows)
		for _, one := range all {
			if one.Held {
				held++
			}
		}
		return all
	})
	return n, held, err
}

func (r *Relay) away(err error) {
	if !r.down.Swap(true) {
		r.config.Logger.Warn("outbox: the database does not answer; trying again", "error", err)
	}
}

func (r *Relay) answered() {
	if r.down.Swap(false) {
		r.config.Logger.Info("outbox: the database answers again")
	}
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// sendAll sends rows at once: each has another message ID.
func (r *Relay) sendAll(ctx context.Context, rows []Row) []Sent {
	ctx, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()
	all := make([]Sent, len(rows))
	var sending sync.WaitGroup
	for i := range rows {
		sending.Go(func() { all[i] = r.send(ctx, &rows[i]) })
	}
	sending.Wait()
	// Where some could be sent, the others have a reason of their own.
	if slices.ContainsFunc(all, func(s Sent) bool { return !s.Held }) {
		for i := range all {
			all[i].Held = false
		}
	}
	return all
}

// send sends one row.
func (r *Relay) send(ctx context.Context, row *Row) Sent {
	done, err := r.try(ctx, row)
	switch {
	case err == nil:
		done.Add(1)
		r.stuck.Store(false)
		return Sent{Seq: row.Seq, Done: true}
	case isFinal(err):
		r.counted.setAside.Add(1)
		r.config.Logger.Error("outbox: a row was set aside, since it can never be sent",
			"seq", row.Seq, "action", string(row.Action), "id", row.MessageID, "error", err)
		return Sent{Seq: row.Seq, Failed: err.Error()}
	}
	r.counted.retried.Add(1)
	if !r.stuck.Swap(true) {
		r.config.Logger.Warn("outbox: a row cannot be sent for now; trying again",
			"seq", row.Seq, "action", string(row.Action), "id", row.MessageID, "error", err)
	}
	return Sent{Seq: row.Seq, Held: errors.Is(err, producer.ErrNotSent) || errors.Is(err, redisbridge.ErrUnreachable)}
}

// errRow is what is wrong with a row.
var errRow = errors.New("invalid row")

// isFinal reports that trying again cannot help.
func isFinal(err error) bool {
	return errors.Is(err, errRow) || errors.Is(err, producer.ErrInvalid) || errors.Is(err, producer.ErrConflict) ||
		errors.Is(err, redisbridge.ErrInvalid)
}

// try returns what counts the row once it was sent.
func (r *Relay) try(ctx context.Context, row *Row) (*atomic.Int64, error) {
	w, err := row.when()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRow, err)
	}
	switch row.Action {
	case ActionPublish:
		m, err := row.message()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errRow, err)
		}
		if r.config.Park != nil && w == (message.When{}) { // Redis knows whether the ID was cancelled since
			w = message.At(time.UnixMilli(row.CreatedMS))
		}
		_, err = r.config.Publisher.Publish(ctx, m, w)
		if errors.Is(err, producer.ErrCancelled) {
			return &r.counted.dropped, nil
		}
		return &r.counted.published, err
	case ActionCancel, ActionReschedule:
		if r.config.Park == nil {
			return nil, fmt.Errorf("%w: %s needs Redis, which this relay does not have", errRow, row.Action)
		}
		if row.Action == ActionCancel {
			_, err = r.config.Park.OfEntry(row.Entry).Cancel(ctx, row.MessageID)
			return &r.counted.cancelled, err
		}
		_, err = r.config.Park.OfEntry(row.Entry).Reschedule(ctx, row.MessageID, w)
		return &r.counted.rescheduled, err
	}
	return nil, fmt.Errorf("%w: action is %q: want %s, %s or %s", errRow, row.Action, ActionPublish, ActionCancel, ActionReschedule)
}
