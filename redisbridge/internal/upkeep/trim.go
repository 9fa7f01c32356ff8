package upkeep

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
)

// Trim takes the oldest messages out of queues that grow beyond a limit. A limit of the queue's own
// would not do: a full unrouted queue that refuses holds up the tier that a message comes from, and
// one that drops its oldest message does so silently.
type Trim struct {
	Conn   *broker.Conn
	Keep   map[string]int // at most, by queue; 0 is no limit
	Every  time.Duration
	First  func() bool // whether this bridge is the one that looks
	Logger *slog.Logger

	removed atomic.Int64
	said    string
}

// Removed is how many messages it has taken out.
func (t *Trim) Removed() int64 { return t.removed.Load() }

// Run looks at each interval, until ctx ends.
func (t *Trim) Run(ctx context.Context) {
	for pause(ctx, t.Every); ctx.Err() == nil; pause(ctx, t.Every) {
		if !t.First() {
			continue
		}
		for queue, keep := range t.Keep {
			if keep > 0 {
				t.say(ctx, t.trim(ctx, queue, keep))
			}
		}
	}
}

// say logs why a queue cannot be trimmed, once.
func (t *Trim) say(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	if text := err.Error(); text != t.said {
		t.said = text
		t.Logger.Warn("cannot take the oldest messages out of a queue", "error", err)
	}
}

// trim takes out what is over. A message is logged before it is removed for good.
func (t *Trim) trim(ctx context.Context, queue string, keep int) error {
	ch, err := t.Conn.Channel(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
	defer context.AfterFunc(ctx, func() { _ = ch.Close() })()
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
		t.Logger.Warn("removed the oldest message of a queue that is over its limit", "queue", queue, "limit", keep,
			"id", d.MessageId, "exchange", d.Exchange, "routing_key", d.RoutingKey, "bytes", len(d.Body), "headers", headersText(d.Headers))
		if err := d.Ack(false); err != nil {
			return fmt.Errorf("remove from %s: %w", queue, broker.Classify(err))
		}
		t.removed.Add(1)
	}
	return nil
}

// headersText is what tells where a message comes from and why it is there; bodies stay out of logs.
func headersText(h amqp.Table) string {
	const most = 500 // bytes
	text := fmt.Sprint(h)
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}
