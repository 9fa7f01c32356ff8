package delaybridge_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	amqp "github.com/rabbitmq/amqp091-go"
	_ "modernc.org/sqlite"

	"github.com/delaybridge/delaybridge"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer/outbox"
	"github.com/delaybridge/delaybridge/producer/outbox/mysql"
	"github.com/delaybridge/delaybridge/producer/outbox/outboxtest"
	"github.com/delaybridge/delaybridge/producer/outbox/postgres"
	"github.com/delaybridge/delaybridge/producer/outbox/sqlite"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// databases are outboxes in a database of their own.
func databases() map[string]func(testing.TB) outboxtest.Subject {
	migrated := func(t testing.TB, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	opened := func(t testing.TB, driver, source string) *sql.DB {
		t.Helper()
		db, err := sql.Open(driver, source)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	return map[string]func(testing.TB) outboxtest.Subject{
		"PostgreSQL": func(t testing.TB) outboxtest.Subject {
			t.Helper()
			url := servertest.PostgreSQL(t)
			pool, err := pgxpool.New(t.Context(), url+"&pool_max_conns=16")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			box := postgres.New(pool)
			migrated(t, box.Migrate(t.Context()))
			return outboxtest.Subject{Store: box, Begin: outboxtest.BeginSQL(opened(t, "pgx", url), box.SQL())}
		},
		"MariaDB": func(t testing.TB) outboxtest.Subject {
			t.Helper()
			db := opened(t, "mysql", servertest.MariaDB(t))
			box := mysql.New(db)
			migrated(t, box.Migrate(t.Context()))
			return outboxtest.Subject{Store: box, Begin: outboxtest.BeginSQL(db, box)}
		},
		"SQLite": func(t testing.TB) outboxtest.Subject {
			t.Helper()
			db := opened(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "shop.db")+"?_txlock=immediate&_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)")
			box := sqlite.New(db)
			migrated(t, box.Migrate(t.Context()))
			return outboxtest.Subject{Store: box, Begin: outboxtest.BeginSQL(db, box)}
		},
	}
}

// relayed has two clients send what is in an outbox, one of which handles what is due.
func (s *shop) relayed(store outbox.Store, handle delaybridge.HandlerFunc) *delaybridge.Client {
	s.Helper()
	client, other := s.client(), s.client()
	if err := errors.Join(client.Relay(store), other.Relay(store),
		client.Consume(delaybridge.ConsumerConfig{Queue: closing, Handler: handle})); err != nil {
		s.Fatal(err)
	}
	s.run(client.Run)
	s.run(other.Run)
	return client
}

// Orders are placed in one transaction, and paid, put off or left alone in the next one.
func TestOutbox(t *testing.T) {
	t.Parallel()
	for name, fresh := range databases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n = 30
			s, subject := open(t), fresh(t)
			var mu sync.Mutex
			came := map[string]time.Time{}
			client := s.relayed(subject.Store, func(_ context.Context, m delaybridge.Message) error {
				mu.Lock()
				defer mu.Unlock()
				came[m.ID] = time.Now()
				return nil
			})
			placed := map[string]time.Time{}
			place := func(id string, delay time.Duration, then func(context.Context, outboxtest.Tx) error) {
				placed[id] = time.Now()
				subject.Within(t, true, func(ctx context.Context, tx outboxtest.Tx) error {
					return tx.Publish(ctx, delaybridge.Message{ID: id, RoutingKey: "order.unpaid"}, message.After(delay))
				})
				subject.Within(t, true, then)
			}
			for i := range n {
				place(fmt.Sprint("paid-", i), time.Hour, func(ctx context.Context, tx outboxtest.Tx) error { return tx.Cancel(ctx, fmt.Sprint("paid-", i)) })
				place(fmt.Sprint("earlier-", i), time.Hour, func(ctx context.Context, tx outboxtest.Tx) error {
					return tx.Reschedule(ctx, fmt.Sprint("earlier-", i), message.After(1500*time.Millisecond))
				})
				place(fmt.Sprint("unpaid-", i), 1500*time.Millisecond, func(ctx context.Context, tx outboxtest.Tx) error {
					return tx.Exec(ctx, `INSERT INTO delaybridge_outbox (message_id, routing_key, headers) VALUES ('bad', 'k', '[]')`)
				})
			}
			for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
				mu.Lock()
				all := len(came)
				mu.Unlock()
				b, err := subject.Store.Backlog(t.Context())
				if err == nil && all == 2*n && b.Waiting == 0 && b.Failed == n {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%d of %d orders came; %+v, %v", all, 2*n, b, err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for id, at := range came {
				if took := at.Sub(placed[id]); took < 1500*time.Millisecond {
					t.Errorf("%s came %v after it was placed", id, took)
				}
			}
			for i := range n {
				if m, err := client.Get(t.Context(), fmt.Sprint("paid-", i)); err != nil || m.State != redisbridge.StateCancelled {
					t.Errorf("an order that was paid is %+v, %v", m, err)
				}
			}
		})
	}
}

// While Redis is away rows stay, and none of them comes early.
func TestOutboxWaitsForRedis(t *testing.T) {
	t.Parallel()
	store := servertest.RedisForTest(t)
	s := openAt(t, store.URL())
	subject := databases()["PostgreSQL"](t)
	var mu sync.Mutex
	came := map[string]int{}
	s.relayed(subject.Store, func(_ context.Context, m delaybridge.Message) error {
		mu.Lock()
		defer mu.Unlock()
		came[m.ID]++
		return nil
	})
	if err := store.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		subject.Within(t, true, func(ctx context.Context, tx outboxtest.Tx) error {
			return tx.Publish(ctx, delaybridge.Message{ID: strconv.Itoa(i), RoutingKey: "order.unpaid"}, message.After(100*time.Millisecond))
		})
	}
	if b, err := subject.Store.Backlog(t.Context()); err != nil || b.Waiting != 20 {
		t.Errorf("got %+v, %v; want all rows to wait", b, err)
	}
	if err := store.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		mu.Lock()
		all := len(came)
		mu.Unlock()
		if all == 20 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of 20 came", all)
		}
	}
}

// What was cancelled after its row was inserted, and before a relay sends the row, has no effect. That holds for a row
// that is due at once, too: whoever sends it later does not publish the ID again.
func TestOutboxDropsWhatWasCancelledMeanwhile(t *testing.T) {
	t.Parallel()
	s, subject := open(t), databases()["PostgreSQL"](t)
	for _, id := range []string{"cancelled", "left alone"} {
		subject.Within(t, true, func(ctx context.Context, tx outboxtest.Tx) error {
			return tx.Publish(ctx, delaybridge.Message{ID: id, RoutingKey: "order.unpaid"}, message.When{})
		})
	}
	client := s.client()
	if c, err := client.Cancel(t.Context(), "cancelled"); err != nil || c.Outcome != redisbridge.OutcomeRecorded {
		t.Fatalf("got %+v, %v; want it recorded", c, err)
	}
	if err := client.Relay(subject.Store); err != nil {
		t.Fatal(err)
	}
	s.run(client.Run)
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		b, err := subject.Store.Backlog(t.Context())
		if err == nil && b.Waiting == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v, %v", b, err)
		}
	}
	conn, err := amqp.Dial(s.config.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	var came []string
	for d, found, err := ch.Get(closing, true); found || err != nil; d, found, err = ch.Get(closing, true) {
		if err != nil {
			t.Fatal(err)
		}
		came = append(came, d.MessageId)
	}
	if !slices.Equal(came, []string{"left alone"}) {
		t.Errorf("came: %q, want what was left alone", came)
	}
}

// BenchmarkOutboxBacklog has two relays send 100,000 rows that are there when they begin, to
// be parked in Redis.
func BenchmarkOutboxBacklog(b *testing.B) {
	const n, each = 100_000, 1000
	for name, fresh := range databases() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				s, subject := open(b), fresh(b)
				for i := range n / each {
					subject.Within(b, true, func(ctx context.Context, tx outboxtest.Tx) error {
						for j := range each {
							id := fmt.Sprintf("order-%d", i*each+j)
							if err := tx.Publish(ctx, delaybridge.Message{ID: id, RoutingKey: "order.unpaid", Body: []byte(`{"order": 1}`)}, message.After(time.Hour)); err != nil {
								return err
							}
						}
						return nil
					})
				}
				b.StartTimer()
				s.relayed(subject.Store, func(context.Context, delaybridge.Message) error { return nil })
				for {
					left, err := subject.Store.Backlog(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					if left.Waiting == 0 {
						break
					}
					time.Sleep(50 * time.Millisecond)
				}
			}
			b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
