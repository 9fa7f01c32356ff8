package consumer_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/consumer/ledger/postgres"
	"github.com/delaybridge/delaybridge/internal/servers/databases"
)

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// count returns how often the log has said something.
func (l *lockedBuffer) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), what)
}

// A ledger's database goes away and comes back. However often the consumer asks it
// meanwhile, that is no attempt, and the log says it once.
func TestTheLedgersDatabaseIsAway(t *testing.T) {
	t.Parallel()
	server, err := databases.StartPostgreSQL(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	pool, err := pgxpool.New(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	marks := postgres.New(pool)
	if err := marks.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	const (
		messages = 5
		attempts = 2
	)
	b, log := newBroker(t), &lockedBuffer{}
	b.bind()
	var asked sync.Map // how often, by key
	config := b.config(acknowledge)
	config.Retry.Attempts = attempts
	config.Logger = slog.New(slog.NewTextHandler(log, nil))
	config.Ledger = ledgerFunc(func(ctx context.Context, key string, effect func(context.Context) error) (bool, error) {
		first, err := marks.Once(ctx, key, effect)
		before, _ := asked.LoadOrStore(key, 0)
		asked.Store(key, before.(int)+1) // one call at a time
		return first, err
	})
	r := start(t, config)
	b.wantConsumer()
	if err := server.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.publish(numbered(messages)...)
	eventually(t, func() error {
		for _, m := range numbered(messages) {
			if n, _ := asked.Load(b.queue + "/" + m.ID); n == nil || n.(int) <= 2*attempts {
				return fmt.Errorf("the ledger was asked %v times about %s", n, m.ID)
			}
		}
		return nil
	})
	if seen := r.observations(); len(seen) > 0 {
		t.Errorf("without a ledger the consumer was done with %+v", seen)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, o := range r.observe(messages) {
		if o.Outcome != consumer.Acknowledged || o.Attempts != 1 {
			t.Errorf("%s is %s after %d attempts: %v", o.Message.ID, o.Outcome, o.Attempts, o.Err)
		}
	}
	b.wantHeld(b.topology.Quarantine(), 0)
	for _, line := range []string{"the ledger cannot be asked", "the ledger answers again"} {
		if n := log.count(line); n != 1 {
			t.Errorf("the log says %d times that %s", n, line)
		}
	}
}
