package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/consumer"
	ledgers "github.com/delaybridge/delaybridge/consumer/ledger"
	"github.com/delaybridge/delaybridge/consumer/ledger/redis"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
)

// Two queues get the same messages, each of them several times; one of the two
// consumers fails at first. Each handles each message with success once.
func TestLedgerLeavesDuplicatesWithoutEffect(t *testing.T) {
	t.Parallel()
	const (
		messages = 5
		lease    = 9 * time.Second // a third of which a duplicate waits that meets the first
	)
	b, env := newBroker(t), servertest.ForTest(t)
	l, err := redis.New(redis.Config{Client: servertest.OpenRedis(t, env.RedisURL), Prefix: "{" + env.Prefix + "}:", Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	var running []*running
	var effects [2]atomic.Int64
	for i, queue := range []string{"billing", "reminding"} {
		b.queue = queue
		b.bind()
		var calls atomic.Int64
		c := b.config(func(context.Context, message.Message) error {
			if i == 0 && calls.Add(1) <= messages {
				return errors.New("not yet")
			}
			effects[i].Add(1)
			return nil
		})
		c.Ledger = l
		running = append(running, start(t, c))
	}
	for range 3 {
		b.publish(numbered(messages)...)
	}
	for i, r := range running {
		outcomes := map[consumer.Outcome]int{}
		for _, o := range r.observe(3 * messages) {
			if outcomes[o.Outcome]++; o.Err != nil {
				t.Errorf("%s: %v", o.Message.ID, o.Err)
			}
		}
		if outcomes[consumer.Acknowledged] != messages || outcomes[consumer.Duplicate] != 2*messages {
			t.Errorf("consumer %d: %v, want %d acknowledged and the others duplicates", i, outcomes, messages)
		}
		if n := effects[i].Load(); n != messages {
			t.Errorf("consumer %d: %d effects, want %d", i, n, messages)
		}
		r.stop()
	}
	b.wantHeld("billing", 0)
	b.wantHeld("reminding", 0)
}

// ledgerFunc is a ledger that answers as a test wants.
type ledgerFunc func(ctx context.Context, key string, effect func(context.Context) error) (bool, error)

func (f ledgerFunc) Once(ctx context.Context, key string, effect func(context.Context) error) (bool, error) {
	return f(ctx, key, effect)
}

func TestWhatTheLedgerSaysDecides(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is full")
	var busy, locked, away atomic.Int64
	for name, c := range map[string]struct {
		id       string
		answers  ledgerFunc
		outcome  consumer.Outcome
		attempts int
		err      error
	}{
		"busy for long": {id: "m-0", answers: func(ctx context.Context, _ string, effect func(context.Context) error) (bool, error) {
			if busy.Add(1) <= 10 {
				return false, fmt.Errorf("o-1: %w", &ledgers.BusyError{Wait: time.Millisecond})
			}
			return true, effect(ctx)
		}, outcome: consumer.Acknowledged, attempts: 1},
		"not marked": {id: "m-0", answers: func(ctx context.Context, _ string, effect func(context.Context) error) (bool, error) {
			return true, errors.Join(effect(ctx), broken)
		}, outcome: consumer.Acknowledged, attempts: 1},
		"locked": {id: "m-0", answers: func(ctx context.Context, _ string, effect func(context.Context) error) (bool, error) {
			if locked.Add(1) <= 3 { // more often than Retry.Attempts allows
				return false, fmt.Errorf("o-1: %w", ledgers.ErrBusy)
			}
			return true, effect(ctx)
		}, outcome: consumer.Acknowledged, attempts: 1},
		"away for a while": {id: "m-0", answers: func(ctx context.Context, _ string, effect func(context.Context) error) (bool, error) {
			if away.Add(1) <= 3 {
				return false, broken
			}
			return true, effect(ctx)
		}, outcome: consumer.Acknowledged, attempts: 1},
		"away when the effect is to be committed": {id: "m-0", answers: func(ctx context.Context, _ string, effect func(context.Context) error) (bool, error) {
			return false, errors.Join(effect(ctx), broken)
		}, outcome: consumer.Quarantined, attempts: 2, err: broken},
		"without an ID": {answers: func(context.Context, string, func(context.Context) error) (bool, error) {
			t.Error("the ledger was asked")
			return false, nil
		}, outcome: consumer.Quarantined, attempts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t)
			b.bind()
			config := b.config(acknowledge)
			config.Retry.Attempts = 2
			config.Ledger = ledgerFunc(func(ctx context.Context, key string, effect func(context.Context) error) (bool, error) {
				if want := b.queue + "/" + c.id; key != want {
					t.Errorf("the key is %q, want %q", key, want)
				}
				return c.answers(ctx, key, effect)
			})
			r := start(t, config)
			b.publish(message.Message{ID: c.id, Body: []byte("body")})
			o := r.observe(1)[0]
			if o.Outcome != c.outcome || o.Attempts != c.attempts || (c.err != nil && !errors.Is(o.Err, c.err)) {
				t.Errorf("got %s after %d attempts, %v, want %s after %d, %v", o.Outcome, o.Attempts, o.Err, c.outcome, c.attempts, c.err)
			}
		})
	}
}
