package redis_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/consumer/ledger"
	"github.com/delaybridge/delaybridge/consumer/ledger/ledgertest"
	"github.com/delaybridge/delaybridge/consumer/ledger/redis"
	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

// patience is for a state that is sure to come.
const patience = 2 * time.Minute

func open(t testing.TB, c redis.Config) *redis.Ledger {
	t.Helper()
	l, err := redis.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// subject is a ledger whose effects are counters beside it.
func subject(client goredis.UniversalClient, prefix string) (ledgertest.Subject, error) {
	// A short lease, since a test waits for the end of those of processes that it kills.
	l, err := redis.New(redis.Config{Client: client, Prefix: prefix + "ledger:", Lease: 3 * time.Second})
	return ledgertest.Subject{
		Ledger: l,
		Effect: func(ctx context.Context, key string) error {
			return client.Incr(ctx, prefix+"effects:"+key).Err()
		},
		Effects: func(ctx context.Context, key string) (int, error) {
			n, err := client.Get(ctx, prefix+"effects:"+key).Int()
			if errors.Is(err, goredis.Nil) {
				err = nil
			}
			return n, err
		},
	}, err
}

func TestConformance(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, ledgertest.Suite{Fresh: func(t testing.TB) func() ledgertest.Subject {
		t.Helper()
		env := servertest.ForTest(t)
		return func() ledgertest.Subject {
			s, err := subject(servertest.OpenRedis(t, env.RedisURL), "{"+env.Prefix+"}:")
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	}})
}

func TestProcessesAreKilled(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	prefix := "{" + env.Prefix + "}:"
	s, err := subject(servertest.OpenRedis(t, env.RedisURL), prefix)
	if err != nil {
		t.Fatal(err)
	}
	ledgertest.Suite{}.RunKilled(t, env.RedisURL+" "+prefix, s)
}

func TestTheServerIsKilled(t *testing.T) {
	t.Parallel()
	store := servertest.RedisForTest(t, servers.Single)
	s, err := subject(servertest.OpenRedis(t, store.URL()), "{killed}:")
	if err != nil {
		t.Fatal(err)
	}
	ledgertest.Suite{}.RunServerKilled(t, s, func(ctx context.Context) error {
		return errors.Join(store.Kill(ctx), store.Restart(ctx))
	})
}

func TestNewReportsEveryFault(t *testing.T) {
	t.Parallel()
	_, err := redis.New(redis.Config{Lease: time.Millisecond, Keep: time.Microsecond})
	for _, name := range []string{"Client", "Lease", "Keep"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want it to name %s", err, name)
		}
	}
}

// A process that died in an effect keeps others from it until its lease is over.
func TestALeaseEnds(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	client := servertest.OpenRedis(t, env.RedisURL)
	prefix := "{" + env.Prefix + "}:"
	const lease = 300 * time.Millisecond
	l := open(t, redis.Config{Client: client, Prefix: prefix, Lease: lease})
	if err := client.Set(t.Context(), prefix+"m-1", "somebody who died", lease).Err(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(patience)
	for {
		first, err := l.Once(t.Context(), "m-1", func(context.Context) error { return nil })
		if err == nil && first {
			return
		}
		busy, ok := errors.AsType[*ledger.BusyError](err)
		if !ok || busy.Wait <= 0 || busy.Wait > lease || !errors.Is(err, ledger.ErrBusy) {
			t.Fatalf("got %v, %v, want to be told how long to wait", first, err)
		}
		if time.Now().After(deadline) {
			t.Fatal("the lease does not end")
		}
		<-time.After(busy.Wait)
	}
}

// An effect that takes longer than a lease keeps it.
func TestALeaseIsRenewed(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	client := servertest.OpenRedis(t, env.RedisURL)
	prefix := "{" + env.Prefix + "}:"
	const lease = 9 * time.Second
	l := open(t, redis.Config{Client: client, Prefix: prefix, Lease: lease})
	first, err := l.Once(t.Context(), "m-1", func(ctx context.Context) error {
		// Let it come to a point at which a lease would have little left, and see it have
		// more again.
		for want := []bool{false, true}; len(want) > 0; <-time.After(10 * time.Millisecond) {
			left, err := client.PTTL(ctx, prefix+"m-1").Result()
			if err != nil {
				return err
			}
			if more := left > lease*5/6; more == want[0] {
				want = want[1:]
			}
		}
		return nil
	})
	if err != nil || !first {
		t.Errorf("got %v, %v, want the first", first, err)
	}
}

// An effect whose lease is lost is told so.
func TestALeaseIsLost(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	client := servertest.OpenRedis(t, env.RedisURL)
	prefix := "{" + env.Prefix + "}:"
	l := open(t, redis.Config{Client: client, Prefix: prefix, Lease: 300 * time.Millisecond})
	_, err := l.Once(t.Context(), "m-1", func(ctx context.Context) error {
		if err := client.Set(ctx, prefix+"m-1", "somebody else", patience).Err(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(patience):
			return errors.New("nobody told it")
		}
	})
	if err == nil || !strings.Contains(err.Error(), "lease") {
		t.Errorf("got %v, want to be told that the lease is lost", err)
	}
	if got := client.Get(t.Context(), prefix+"m-1").Val(); got != "somebody else" {
		t.Errorf("the mark says %q, want that of the new one left alone", got)
	}
}

func TestAMarkExpires(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	client := servertest.OpenRedis(t, env.RedisURL)
	prefix := "{" + env.Prefix + "}:"
	const keep = time.Hour
	l := open(t, redis.Config{Client: client, Prefix: prefix, Keep: keep})
	if _, err := l.Once(t.Context(), "m-1", func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if left, err := client.PTTL(t.Context(), prefix+"m-1").Result(); err != nil || left <= 0 || left > keep {
		t.Errorf("the mark is kept for %v, %v, want up to %v", left, err, keep)
	}
}

// An effect that has happened, and whose mark Redis does not take, is the first all
// the same: handled again, it would be the second.
func TestAnEffectWithoutItsMark(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	client := servertest.OpenRedis(t, env.RedisURL)
	own := servertest.OpenRedis(t, env.RedisURL)
	l := open(t, redis.Config{Client: own, Prefix: "{" + env.Prefix + "}:"})
	first, err := l.Once(t.Context(), "m-1", func(context.Context) error { return own.Close() })
	if !first || err == nil {
		t.Errorf("got %v, %v, want true and an error", first, err)
	}
	if n := client.Exists(t.Context(), "{"+env.Prefix+"}:m-1").Val(); n != 1 {
		t.Error("the lease does not keep others from it")
	}
}
