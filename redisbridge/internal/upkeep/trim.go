package upkeep

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/sleep"
)

// Trim takes messages out of queues that keep them for people: those that were there for too long, and the
// oldest of too many. A limit of the queue's own would not do: a full unrouted queue that refuses holds up
// the tier that a message comes from, and one that drops its oldest message does so silently.
type Trim struct {
	Conn   *broker.Conn
	Limits map[string]Limit // by queue
	Every  time.Duration
	First  func() bool // whether this bridge is the one that looks
	// Since tells since when a message of a queue is there, or false where it does not say.
	Since func(queue string, d *amqp.Delivery) (time.Time, bool)
	// Now is the clock that Retain is measured by.
	Now    func(context.Context) (time.Time, error)
	Logger *slog.Logger

	mu      sync.Mutex
	removed map[string]Removed // by queue
	said    map[string]string  // the last fault, by queue
	undated map[string]bool    // queues of whose undated messages it was said that they stay
}

// Limit bounds what a queue keeps. The zero value keeps all.
type Limit struct {
	Keep   int           // messages at most; 0 is no limit
	Retain time.Duration // for how long at least, and not much longer; 0 is for ever
}

// Removed counts messages that were taken out of a queue.
type Removed struct {
	Over int64 // since there were more than Limit.Keep
	Old  int64 // since they were there for longer than Limit.Retain
}

// mostUndated bounds how many messages without a date are passed over at each look. They are fetched
// again each time.
const mostUndated = 200

// Removed is how many messages it has taken out, by queue.
func (t *Trim) Removed() map[string]Removed {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.removed)
}

// Run looks at each interval, until ctx ends.
func (t *Trim) Run(ctx context.Context) {
	t.said, t.undated = map[string]string{}, map[string]bool{}
	for sleep.For(ctx, t.Every); ctx.Err() == nil; sleep.For(ctx, t.Every) {
		if !t.First() {
			continue
		}
		for queue, limit := range t.Limits {
			if limit.Retain > 0 {
				t.say(ctx, queue, t.expire(ctx, queue, limit.Retain))
			}
			if limit.Keep > 0 {
				t.say(ctx, queue, t.trim(ctx, queue, limit.Keep))
			}
		}
	}
}

// say logs why messages cannot be taken out of a queue, once.
func (t *Trim) say(ctx context.Context, queue string, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	if text := err.Error(); text != t.said[queue] {
		t.said[queue] = text
		t.Logger.Warn("cannot take the oldest messages out of a queue", "error", err)
	}
}

// expire takes out what was there for longer than retain. It ends at the first message that was not: what is
// behind that one is younger, or waits for it.
func (t *Trim) expire(ctx context.Context, queue string, retain time.Duration) error {
	now, err := t.Now(ctx)
	if err != nil {
		return fmt.Errorf("ask Redis for its clock, to know how old the messages of %s are: %w", queue, err)
	}
	ch, done, err := t.channel(ctx)
	if err != nil {
		return err
	}
	defer done()
	var last uint64 // delivery
	undated := 0
	for undated < mostUndated && ctx.Err() == nil {
		d, found, err := ch.Get(queue, false)
		if err != nil {
			return fmt.Errorf("read %s: %w", queue, broker.Classify(err))
		}
		if !found {
			break
		}
		last = d.DeliveryTag
		since, known := t.Since(queue, &d)
		if !known {
			t.sayUndated(queue, &d)
			undated++
			continue
		}
		if now.Sub(since) <= retain {
			break
		}
		t.Logger.Warn("removed a message that was in a queue for longer than its retention", append([]any{
			"queue", queue, "retention", retain, "since", since.UTC().Format(time.RFC3339),
		}, described(&d)...)...)
		if err := t.remove(queue, &d, Removed{Old: 1}); err != nil {
			return err
		}
	}
	if last == 0 {
		return nil
	}
	if err := ch.Nack(last, true, true); err != nil { // all that is not acknowledged
		return fmt.Errorf("give back to %s what stays: %w", queue, broker.Classify(err))
	}
	return nil
}

func (t *Trim) sayUndated(queue string, d *amqp.Delivery) {
	if t.undated[queue] {
		return
	}
	t.undated[queue] = true
	t.Logger.Warn("a queue with a retention has messages that do not say since when they are there: they stay, and after as many in front, all behind them",
		append([]any{"queue", queue, "in_front", mostUndated}, described(d)...)...)
}

// trim takes out what is over.
func (t *Trim) trim(ctx context.Context, queue string, keep int) error {
	ch, done, err := t.channel(ctx)
	if err != nil {
		return err
	}
	defer done()
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("count %s: %w", queue, broker.Classify(err))
	}
	for over := q.Messages - keep; over > 0 && ctx.Err() == nil; over-- {
		d, found, err := ch.Get(queue, false)
		if err != nil {
			return fmt.Errorf("read %s: %w", queue, broker.Classify(err))
		}
		if !found {
			return nil
		}
		t.Logger.Warn("removed the oldest message of a queue that is over its limit", append([]any{"queue", queue, "limit", keep}, described(&d)...)...)
		if err := t.remove(queue, &d, Removed{Over: 1}); err != nil {
			return err
		}
	}
	return nil
}

// channel returns a channel that ends with ctx, or when done is called.
func (t *Trim) channel(ctx context.Context) (ch *amqp.Channel, done func(), err error) {
	if ch, err = t.Conn.Channel(ctx); err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = ch.Close() })
	return ch, func() {
		stop()
		_ = ch.Close()
	}, nil
}

// remove takes a message out for good, which was logged before.
func (t *Trim) remove(queue string, d *amqp.Delivery, counts Removed) error {
	if err := d.Ack(false); err != nil {
		return fmt.Errorf("remove from %s: %w", queue, broker.Classify(err))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.removed == nil {
		t.removed = map[string]Removed{}
	}
	n := t.removed[queue]
	t.removed[queue] = Removed{Over: n.Over + counts.Over, Old: n.Old + counts.Old}
	return nil
}

// described is what a log line says of a message.
func described(d *amqp.Delivery) []any {
	return []any{"id", d.MessageId, "exchange", d.Exchange, "key", d.RoutingKey, "bytes", len(d.Body), "headers", headersText(d.Headers)}
}

// headersText is what tells where a message comes from and why it is there; bodies stay out of logs.
func headersText(h amqp.Table) string {
	const most = 500 // bytes
	text := fmt.Sprint(h)
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}
