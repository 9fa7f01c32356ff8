package redisbridge_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// shown are the queues by which bridges show what is parked.
func (b *bench) shown(t *testing.T) (names []string) {
	t.Helper()
	var queues []struct{ Name string }
	if err := json.Unmarshal(b.Manage(t, http.MethodGet, "/api/queues/"+b.VHost+"?disable_stats=true&columns=name", ""), &queues); err != nil {
		t.Fatal(err)
	}
	for _, q := range queues {
		if text, ok := strings.CutPrefix(q.Name, strings.TrimSuffix(b.topology.Shown(""), ")")); ok {
			names = append(names, text)
		}
	}
	return names
}

// awaitShown waits until the list of queues shows one text, which begins and ends so.
func (b *bench) awaitShown(t *testing.T, begins, ends string) {
	t.Helper()
	var names []string
	for deadline := time.Now().Add(patience); ; pauseShortly() {
		if names = b.shown(t); len(names) == 1 && strings.HasPrefix(names[0], begins) && strings.HasSuffix(names[0], ends) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("shown: %q; want one that begins with %q and ends with %q", names, begins, ends)
		}
	}
}

func (b *bench) awaitNothingShown(t *testing.T) {
	t.Helper()
	until(t, "nothing is shown", func() bool { return len(b.shown(t)) == 0 })
}

func quickly(c *redisbridge.Config) { c.ShowEvery = 50 * time.Millisecond }

func rfc3339(at time.Time) string { return at.UTC().Format(time.RFC3339) }

func TestListOfQueuesSaysHowMuchIsParked(t *testing.T) {
	t.Parallel()
	store := servertest.RedisForTest(t)
	env := servertest.ForTest(t)
	env.RedisURL = store.URL()
	b := newBenchAt(t, short(), env)
	first := b.parkOne(t, "first", message.After(time.Hour))
	b.parkOne(t, "second", message.After(2*time.Hour))
	stop := b.run(t, quickly)
	b.awaitShown(t, "2 parked in Redis, next due "+rfc3339(first), "Z)")

	// What the bridges put in place, and what verify and delete go by, knows nothing of it.
	management, err := topology.NewManagement(b.ManagementURL, b.VHost)
	if err != nil {
		t.Fatal(err)
	}
	drifts, err := b.topology.Verify(t.Context(), management)
	if err != nil || len(drifts) > 0 {
		t.Errorf("verify: %v, %v", drifts, err)
	}

	// A bridge that cannot see must not go on saying what it saw.
	if err := store.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.awaitShown(t, "unknown since ", " how many are parked, as Redis does not answer; before: 2 parked in Redis)")
	if err := store.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.awaitShown(t, "2 parked in Redis, next due "+rfc3339(first), "Z)")

	stop()
	b.awaitNothingShown(t)
}

func TestOneOfTheBridgesShows(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	due := b.parkOne(t, "one", message.After(time.Hour))
	stopOne := b.run(t, quickly)
	stopTwo := b.run(t, quickly)
	text := "1 parked in Redis, next due " + rfc3339(due)
	b.awaitShown(t, text, "")
	sooner := b.parkOne(t, "two", message.After(30*time.Minute)) // long before anybody would look
	text = "2 parked in Redis, next due " + rfc3339(sooner)
	b.awaitShown(t, text, "")
	stopOne()
	b.awaitShown(t, text, "")
	stopTwo()
	b.awaitNothingShown(t)
}

// The next bridge may show already what this one is about to show: the broker refuses
// that, and closes the channel. What this one has shown before goes all the same.
func TestWhatWasShownGoesThoughTheNextBridgeShowsAlready(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	due := b.parkOne(t, "one", message.After(time.Hour))
	log := newLogCapture()
	b.run(t, func(c *redisbridge.Config) {
		quickly(c)
		c.Name, c.Logger = "b", slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	b.awaitShown(t, "1 parked in Redis, next due "+rfc3339(due), "")

	sooner := time.Now().Add(30 * time.Minute).Truncate(time.Second)
	text := "2 parked in Redis, next due " + rfc3339(sooner)
	next := b.dial(t)
	ch, err := next.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare(b.topology.Shown(text), false, false, true, false, nil); err != nil {
		t.Fatal(err)
	}
	b.parkOne(t, "two", message.At(sooner))
	log.await(t, "another bridge shows what is parked")
	b.run(t, func(c *redisbridge.Config) { // from now on the first one
		quickly(c)
		c.Name = "a"
	})
	until(t, "the bridge before it shows nothing", func() bool { return len(b.shown(t)) == 1 })
	if err := next.Close(); err != nil {
		t.Fatal(err)
	}
	b.awaitShown(t, text, "")
}

func TestBridgeThatMayNotShowGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	url := b.userWithoutConfigure(t)
	log := newLogCapture()
	b.run(t, func(c *redisbridge.Config) {
		quickly(c)
		c.AMQPURL, c.Logger = url, log.logger()
	})
	log.await(t, "the management UI does not show what is parked")
	b.parkOne(t, "delivered all the same", message.After(200*time.Millisecond))
	b.arrivals.awaitID(t, "delivered all the same")
	if n := log.count("the management UI does not show what is parked"); n != 1 {
		t.Errorf("said %d times", n)
	}
	if shown := b.shown(t); len(shown) > 0 {
		t.Errorf("shown: %q", shown)
	}
}

func TestShowNever(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.run(t, func(c *redisbridge.Config) { c.ShowEvery = -1 })
	b.parkOne(t, "one", message.After(200*time.Millisecond))
	b.arrivals.awaitID(t, "one")
	if shown := b.shown(t); len(shown) > 0 {
		t.Errorf("shown: %q", shown)
	}
}
