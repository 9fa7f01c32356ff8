package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
)

// brief is the broker's consumer_timeout in TestHeldMessagesAreGivenBack. An eighth of it is
// what a slow machine may lose.
const brief = 16 * time.Second

// deliveries counts how often each message was delivered.
type deliveries struct {
	mu    sync.Mutex
	times map[string]int
}

// count is for Config.OrderBy, which is called once for each delivery.
func (d *deliveries) count(key string) func(message.Message) string {
	d.times = map[string]int{}
	return func(m message.Message) string {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.times[m.ID]++
		return key
	}
}

func (d *deliveries) of(id string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.times[id]
}

// atLeast returns nil once the message was delivered n times.
func (d *deliveries) atLeast(id string, n int) error {
	if got := d.of(id); got < n {
		return fmt.Errorf("%s was delivered %d times, want %d", id, got, n)
	}
	return nil
}

// wantAtMost fails where a message was delivered more often than that.
func (d *deliveries) wantAtMost(t *testing.T, n int) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, times := range d.times {
		if times > n {
			t.Errorf("%s was delivered %d times, want at most %d", id, times, n)
		}
	}
}

// away is a server that can be asked about messages, and answers once it is back.
type away struct {
	asked atomic.Int64
	back  atomic.Bool
	fault func(id string) bool // those that never get an answer; defaults to none
}

func (a *away) ask(id string) error {
	a.asked.Add(1)
	if !a.back.Load() || a.fault != nil && a.fault(id) {
		return errDown
	}
	return nil
}

func (a *away) Arrive(_ context.Context, m *message.Message) (message.Arrival, error) {
	return message.Arrival{}, a.ask(m.ID)
}

func (a *away) Handled(context.Context, *message.Message, message.Handling) error { return nil }

func (a *away) once(ctx context.Context, key string, effect func(context.Context) error) (bool, error) {
	if err := a.ask(key); err != nil {
		return false, err
	}
	err := effect(ctx)
	return err == nil, err
}

// RabbitMQ takes back what is not acknowledged in time: up to 4.2 it closes the channel, so
// that all that the consumer holds counts as one more delivery.
func TestHeldMessagesAreGivenBack(t *testing.T) {
	t.Parallel()
	server := servertest.RabbitMQForTest(t)
	if _, err := server.Control(t.Context(), "eval", fmt.Sprintf(
		"application:set_env(rabbit, consumer_timeout, %d), application:set_env(rabbit, channel_tick_interval, 100).", brief.Milliseconds())); err != nil {
		t.Fatal(err)
	}
	// corner is a queue of its own, and a consumer's configuration; the test fails where the
	// broker has ended that one's channel.
	corner := func(t *testing.T, h consumer.HandlerFunc) (*broker, consumer.Config) {
		t.Helper()
		prefix := strings.ToLower(strings.Map(func(r rune) rune {
			if r == '/' || r == ' ' || r == '_' || r == ',' {
				return '-'
			}
			return r
		}, t.Name()[strings.Index(t.Name(), "/")+1:]))
		b := &broker{
			t: t, url: server.AMQPURL(), management: server.ManagementURL(), vhost: "%2F",
			topology: describe(t, small(prefix)), queue: prefix + ".billing",
		}
		b.apply()
		b.bind()
		c, log := b.config(h), &lockedBuffer{}
		c.ConsumerTimeout, c.Logger = brief, slog.New(slog.NewTextHandler(log, nil))
		t.Cleanup(func() {
			if log.count("consuming was interrupted") > 0 {
				t.Errorf("the broker has ended the channel:\n%s", log.b.String())
			}
		})
		return b, c
	}

	// Each of the first handlers takes until everything behind it was given back once more:
	// together, for longer than the timeout.
	for name, change := range map[string]func(*consumer.Config) string{
		"slow handlers":                func(c *consumer.Config) string { c.Concurrency = 1; return "" },
		"slow handlers of one key":     func(c *consumer.Config) string { c.Concurrency = 3; return "customer" },
		"slow handlers, single active": func(c *consumer.Config) string { c.Concurrency, c.SingleActive = 1, true; return "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const messages, slow = 12, 3
			last := fmt.Sprintf("m-%d", messages-1)
			var seen deliveries
			var handled []string
			b, c := corner(t, func(ctx context.Context, m message.Message) error {
				if len(handled) < slow {
					for seen.atLeast(last, len(handled)+2) != nil && ctx.Err() == nil {
						time.Sleep(10 * time.Millisecond)
					}
				}
				handled = append(handled, m.ID)
				return nil
			})
			key := change(&c)
			if c.SingleActive { // an argument that the queue does not have yet
				if _, err := b.channel().QueueDelete(b.queue, false, false, false); err != nil {
					t.Fatal(err)
				}
			}
			c.OrderBy = seen.count(key)
			r := start(t, c)
			<-r.ready
			began := time.Now()
			b.publish(numbered(messages)...)
			for _, o := range r.observe(messages) {
				if o.Outcome != consumer.Acknowledged {
					t.Errorf("observed %+v", o)
				}
			}
			took := time.Since(began)
			if took < brief {
				t.Errorf("it took %v, which shows nothing", took)
			}
			seen.wantAtMost(t, 1+int(took/(brief*7/16)))
			var want []string
			for _, m := range numbered(messages) {
				want = append(want, m.ID)
			}
			if !slices.Equal(handled, want) {
				t.Errorf("handled %v, want the order of the queue", handled)
			}
			r.stop()
			b.wantHeld(b.queue, 0)
		})
	}

	for name, attach := range map[string]func(*consumer.Config, *away){
		"cancellations cannot be seen": func(c *consumer.Config, a *away) { c.Arrivals = a },
		"the ledger is away":           func(c *consumer.Config, a *away) { c.Ledger = ledgerFunc(a.once) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const messages = 15
			var seen deliveries
			server := &away{}
			b, c := corner(t, acknowledge)
			attach(&c, server)
			c.Concurrency, c.OrderBy = 4, seen.count("")
			r := start(t, c)
			<-r.ready
			began := time.Now()
			b.publish(numbered(messages)...)
			b.wantQueue(b.queue, func(q amqp.Queue) bool { return q.Messages == messages && q.Consumers == 0 }, "all messages, and no consumer")
			asked := server.asked.Load()
			eventually(t, func() error { // on behalf of messages that are in the queue
				if n := server.asked.Load(); n < asked+3 {
					return fmt.Errorf("asked %d times since", n-asked)
				}
				return nil
			})
			if err := r.check(); err != nil {
				t.Errorf("while it waits on purpose: %v", err)
			}
			server.back.Store(true)
			eventually(t, func() error {
				done := 0
				for _, o := range r.observations() {
					if o.Outcome == consumer.Acknowledged {
						done++
					}
				}
				if done < messages {
					return fmt.Errorf("%d of %d messages handled", done, messages)
				}
				return nil
			})
			seen.wantAtMost(t, 2+int(time.Since(began)/(brief*3/2)))
			r.stop()
			b.wantHeld(b.queue, 0)
		})
	}

	// What meets a fault of its own holds up others for the timeout at most.
	t.Run("a fault of its own", func(t *testing.T) {
		t.Parallel()
		server := &away{fault: func(id string) bool { return id == "m-0" }}
		server.back.Store(true)
		b, c := corner(t, acknowledge)
		c.Arrivals = server
		r := start(t, c)
		b.publish(numbered(1)...)
		b.wantQueue(b.queue, func(q amqp.Queue) bool { return q.Messages == 1 && q.Consumers == 0 }, "one message, and no consumer")
		b.publish(message.Message{ID: "another"})
		eventually(t, func() error {
			if !slices.ContainsFunc(r.observations(), func(o consumer.Observation) bool {
				return o.Message.ID == "another" && o.Outcome == consumer.Acknowledged
			}) {
				return errors.New("it is not handled yet")
			}
			return nil
		})
		r.stop()
		b.wantHeld(b.queue, 1)
	})

	for name, handle := range map[string]struct {
		err      error
		attempts int // at least
	}{"retries in the consumer": {errHandler, 3}, "a long pause in the consumer": {consumer.RetryAfter(time.Hour, errHandler), 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen deliveries
			b, c := corner(t, func(context.Context, message.Message) error { return handle.err })
			c.Retry, c.OrderBy = consumer.Retry{Cap: 2 * time.Second, Attempts: 1000}, seen.count("")
			r := start(t, c)
			b.publish(numbered(1)...)
			if o := r.observe(1)[0]; o.Outcome != consumer.Quarantined || o.Attempts < handle.attempts || !errors.Is(o.Err, errHandler) {
				t.Errorf("observed %+v", o)
			}
			seen.wantAtMost(t, 1)
			r.stop()
			b.wantHeld(b.queue, 0)
			b.wantHeld(b.topology.Quarantine(), 1)
		})
	}

	t.Run("retries cannot be parked", func(t *testing.T) {
		t.Parallel()
		var seen deliveries
		var failed atomic.Int64
		b, c := corner(t, func(context.Context, message.Message) error {
			if failed.Add(1) <= 2 {
				return errHandler
			}
			return nil
		})
		delayer := b.republisher()
		delayer.down = -1
		c.Delayer, c.OrderBy = delayer, seen.count("")
		r := start(t, c)
		b.publish(numbered(1)...)
		eventually(t, func() error { return seen.atLeast("m-0", 2) })
		delayer.mu.Lock()
		delayer.down = 0
		delayer.mu.Unlock()
		outcomes := func() (all []consumer.Outcome) {
			for _, o := range r.observe(3) {
				all = append(all, o.Outcome)
			}
			slices.Sort(all)
			return all
		}()
		if want := []consumer.Outcome{consumer.Acknowledged, consumer.Delayed, consumer.Returned}; !slices.Equal(outcomes, want) {
			t.Errorf("observed %v, want %v", outcomes, want)
		}
		r.stop()
		b.wantHeld(b.queue, 0)
	})
}
