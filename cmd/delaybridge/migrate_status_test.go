package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/migration"
)

// statusWatch is a running migrate status --watch.
type statusWatch struct {
	seen chan migration.Status
	code chan int
}

func (l *pluginLab) watchStatus(t *testing.T, args ...string) *statusWatch {
	t.Helper()
	w := &statusWatch{seen: make(chan migration.Status), code: make(chan int, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	ended := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		_ = read.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		w.code <- run(ctx, append([]string{"migrate", "status", "--watch", "-o", "jsonl"}, args...), cli.Streams{Out: write, Err: io.Discard}, l.lookupEnv)
		_ = write.Close()
	}()
	go func() {
		defer close(w.seen)
		for lines := bufio.NewScanner(read); lines.Scan(); {
			var status migration.Status
			if json.Unmarshal(lines.Bytes(), &status) != nil {
				return
			}
			select {
			case w.seen <- status:
			case <-ctx.Done():
				return
			}
		}
	}()
	return w
}

// await waits until a look shows of an exchange what is wanted.
func (w *statusWatch) await(t *testing.T, what, exchange string, wanted func(migration.Status, migration.Progress) bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	var last migration.Status
	for {
		select {
		case status, more := <-w.seen:
			if !more {
				t.Fatalf("%s: the watch has ended; last %+v", what, last)
			}
			last = status
			if i := slices.IndexFunc(status.Exchanges, func(p migration.Progress) bool { return p.Exchange == exchange }); i >= 0 && wanted(status, status.Exchanges[i]) {
				return
			}
		case <-deadline:
			t.Fatalf("%s: not within a minute; last %+v", what, last)
		}
	}
}

// checkout publishes to whatever exchange it is told, over a connection with that name.
func checkout(t *testing.T, l *pluginLab, exchanges <-chan string) (stopped <-chan struct{}) {
	t.Helper()
	conn, err := amqp.DialConfig(l.server.AMQPURL(), amqp.Config{Properties: amqp.Table{"connection_name": "checkout"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		to := <-exchanges
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for more := true; more; {
			select {
			case to, more = <-exchanges:
			case <-tick.C:
				if err := ch.PublishWithContext(t.Context(), to, "order.unpaid", false, false, amqp.Publishing{Headers: amqp.Table{"x-delay": int64(1000)}}); err != nil {
					return
				}
			}
		}
	}()
	return done
}

// The status shows who publishes where, and what is inside, until the plugin is not needed
// any more.
func TestMigrateStatusWatches(t *testing.T) {
	t.Parallel()
	l := newPluginLab(t)
	l.statistics(t, "basic")
	l.exchange(t, "orders", "direct")
	l.exchange(t, "audit", "fanout")
	l.queue(t, "unpaid", "orders", "order.unpaid", nil)
	l.migrate(t, "--apply")
	l.publish(t, "audit", "", amqp.Table{"x-delay": int64(time.Hour / time.Millisecond)})
	exchanges := make(chan string)
	stopped := checkout(t, l, exchanges)
	exchanges <- "orders"

	byCheckout := func(publishers []migration.Publisher) bool {
		return slices.ContainsFunc(publishers, func(p migration.Publisher) bool {
			return p.Name == "checkout" && p.User == "guest" && p.Published > 0 && p.Rate > 0
		})
	}
	w := l.watchStatus(t, "--interval", "500ms", "--silent-for", "3s", "--longest-delay", "1h")
	w.await(t, "publishing to the old exchange", "orders", func(s migration.Status, p migration.Progress) bool {
		return p.State == migration.StatePublished && *p.Delayed > 0 && p.In != nil && *p.In > 0 && p.Publishers == nil && byCheckout(s.Publishers)
	})
	w.await(t, "what is held, and until when", "audit", func(s migration.Status, p migration.Progress) bool {
		return p.State == migration.StateHolds && *p.Delayed == 1 && p.EmptyBy != nil && p.EmptyBy.Sub(*p.SilentSince) == time.Hour
	})
	// Meanwhile the management API does not answer, which the watch survives.
	l.statistics(t, "detailed")
	w.await(t, "who publishes to it", "orders", func(s migration.Status, p migration.Progress) bool {
		return byCheckout(p.Publishers) && len(s.Publishers) == 0
	})
	exchanges <- "delaybridge.entry.orders"
	w.await(t, "publishing to the entry exchange, and an empty old one", "orders", func(_ migration.Status, p migration.Progress) bool {
		return p.State == migration.StateEmpty && *p.Delayed == 0 && p.InEntry != nil && *p.InEntry > 0
	})
	if code, stdout, stderr := runIn(t, l.env, "migrate", "status", "--interval", "200ms", "--silent-for", "400ms"); code != cli.ExitDrift {
		t.Errorf("exit code %d, want %d: %s%s", code, cli.ExitDrift, stdout, stderr)
	}
	close(exchanges)
	<-stopped
	if err := l.channel(t).ExchangeDelete("audit", false, false); err != nil {
		t.Fatal(err)
	}
	w.await(t, "the end", "orders", func(s migration.Status, _ migration.Progress) bool { return s.Done })
	if code := <-w.code; code != cli.ExitOK {
		t.Errorf("the watch ends with exit code %d", code)
	}
	if code, stdout, stderr := runIn(t, l.env, "migrate", "status", "--interval", "200ms", "--silent-for", "400ms"); code != cli.ExitOK {
		t.Errorf("exit code %d, want %d: %s%s", code, cli.ExitOK, stdout, stderr)
	}
}
