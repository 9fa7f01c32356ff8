package redisbridge_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/health"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
)

func (b *bench) layoutKey() string { return "{" + b.topology.Prefix() + "}:layout" }

// layout returns a field of what Redis knows of the installation.
func (b *bench) layout(t *testing.T, field string) string {
	t.Helper()
	all, err := b.client.HGetAll(t.Context(), b.layoutKey()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return all[field]
}

// awaitBeat waits until a bridge has told Redis and the broker of the same beat.
func (b *bench) awaitBeat(t *testing.T) {
	t.Helper()
	until(t, "Redis and the broker know the installation", func() bool {
		return b.layout(t, "beat") != "" && b.messagesIn(t, b.topology.Installation()) == 1
	})
}

// installed has the installation be an old one, before a bridge runs.
func (b *bench) installed(t *testing.T) {
	t.Helper()
	if err := b.client.HSet(t.Context(), b.layoutKey(), "installation", "mine", "epoch", 1, "beat", 100).Err(); err != nil {
		t.Fatal(err)
	}
}

// keys returns all that Redis has under the prefix.
func (b *bench) keys(t *testing.T) []string {
	t.Helper()
	prefix := b.topology.Prefix()
	return append(keysLike(t, b.RedisURL, "{"+prefix+":*"), keysLike(t, b.RedisURL, "{"+prefix+"}:*")...)
}

// empty removes all that Redis has under the prefix.
func (b *bench) empty(t *testing.T) {
	t.Helper()
	for _, key := range b.keys(t) {
		if err := b.client.Del(t.Context(), key).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// adopt has the installation go on with what Redis has.
func (b *bench) adopt(t *testing.T, yes bool) redisbridge.Adoption {
	t.Helper()
	a, err := redisbridge.Adopt(t.Context(), redisbridge.Config{Client: b.client, AMQPURL: b.AMQPURL, Topology: b.topology}, func(redisbridge.Adoption) bool { return yes })
	if err != nil {
		t.Fatal(err)
	}
	if a.Adopted != (yes && a.Refused != "") {
		t.Fatalf("got %+v", a)
	}
	return a
}

// What Redis has is refused where it is not what the installation has left there, by bridges and by those who
// park. Nothing is lost meanwhile, and a person decides.
func TestWhatIsNotTheInstallationsIsRefused(t *testing.T) {
	t.Parallel()
	set := func(fields ...any) func(*testing.T, *bench) {
		return func(t *testing.T, b *bench) {
			t.Helper()
			if err := b.client.HSet(t.Context(), b.layoutKey(), fields...).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, tc := range map[string]struct {
		change  func(*testing.T, *bench)
		refused string
	}{
		"emptied":                       {func(t *testing.T, b *bench) { t.Helper(); b.empty(t) }, "Redis knows nothing of installation"},
		"restored from an older backup": {set("beat", 100), "Redis is an older copy: it is as it was at "},
		"of before it was adopted":      {set("epoch", 1, "beat", 100_000), "Redis is an older copy, of epoch 1 of installation"},
		"another installation's":        {set("installation", "other"), "Redis is of installation other, and RabbitMQ of "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, short())
			set("installation", "mine", "epoch", 2, "beat", 104)(t, b)
			stop := b.run(t, nil)
			b.awaitBeat(t)
			stop()
			tc.change(t, b)

			b.run(t, nil)
			if c := b.awaitCondition(t, health.Foreign); !strings.HasPrefix(c.Detail, tc.refused) {
				t.Errorf("refused because %q, want %q", c.Detail, tc.refused)
			}
			publisher, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: b.client, Topology: b.topology})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := publisher.Park(t.Context(), &message.Message{ID: "parked", RoutingKey: "k"}, message.After(time.Hour)); !errors.Is(err, redisbridge.ErrForeign) || !strings.Contains(err.Error(), tc.refused) {
				t.Errorf("who parks is told %v, want ErrForeign", err)
			}
			b.publishEntry(t, amqp.Publishing{MessageId: "m", Headers: amqp.Table{"x-delay": int64(1100)}})
			until(t, "it is in the inbox", func() bool { return b.messagesIn(t, b.topology.Inbox()) == 1 })

			before := b.layout(t, "epoch")
			if a := b.adopt(t, false); !strings.HasPrefix(a.Refused, tc.refused) || a.Consequences == "" || b.layout(t, "epoch") != before {
				t.Errorf("without consent: %+v, and epoch %s becomes %s", a, before, b.layout(t, "epoch"))
			}
			if a := b.adopt(t, true); a.Epoch != 3 || a.Installation != "mine" {
				t.Errorf("adopted: %+v; want epoch 3 of installation mine", a)
			}
			b.arrivals.awaitID(t, "m")
			b.awaitOver(t, health.Foreign)
			if _, err := publisher.Park(t.Context(), &message.Message{ID: "parked", RoutingKey: "k"}, message.After(time.Hour)); err != nil {
				t.Errorf("who parks afterwards is told %v", err)
			}
			if a := b.adopt(t, true); a.Adopted || a.Refused != "" {
				t.Errorf("adopted once more: %+v; want nothing to adopt", a)
			}
		})
	}
}

// A bridge that runs notices that Redis was emptied, and lets nothing more in.
func TestRunningBridgeRefusesAnEmptiedRedis(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.installed(t)
	b.run(t, nil)
	b.awaitBeat(t)
	until(t, "the bridge has a shard", func() bool { return b.client.Exists(t.Context(), "{"+b.topology.Prefix()+":0}:state").Val() == 1 })
	b.empty(t)
	b.awaitCondition(t, health.Foreign)
	b.publishEntry(t, amqp.Publishing{MessageId: "m", Headers: amqp.Table{"x-delay": int64(1100)}})
	until(t, "it is in the inbox", func() bool { return b.messagesIn(t, b.topology.Inbox()) == 1 })
	b.adopt(t, true)
	b.arrivals.awaitID(t, "m")
}

// Those who park ask RabbitMQ where Redis knows no installation, so that an emptied one is refused while no bridge runs,
// by all who ask at once. A bridge would take that of a young installation, and a person may adopt it.
func TestPublisherRefusesAnEmptiedRedis(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	stop := b.run(t, nil)
	b.awaitBeat(t)
	stop()
	b.empty(t)
	publisher := b.publisher(t)
	var parking sync.WaitGroup
	for n := range 8 {
		parking.Go(func() {
			if err := parkIn(t, publisher, fmt.Sprint("at-once-", n)); !errors.Is(err, redisbridge.ErrForeign) || !strings.Contains(err.Error(), "it was emptied") {
				t.Errorf("who parks is told %v, want ErrForeign", err)
			}
		})
	}
	parking.Wait()
	if _, err := publisher.Cancel(t.Context(), "m"); !errors.Is(err, redisbridge.ErrForeign) {
		t.Errorf("who cancels is told %v, want ErrForeign", err)
	}
	b.adopt(t, true)
	if err := parkIn(t, publisher, "adopted"); err != nil {
		t.Errorf("who parks afterwards is told %v", err)
	}
}

// Where neither server knows an installation, the prefix is new. Parking works while the broker is away.
func TestPublisherTakesANewRedis(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	if err := parkIn(t, b.publisher(t), "new"); err != nil {
		t.Errorf("who parks under a new prefix is told %v", err)
	}
	b.AMQPURL = "amqp://127.0.0.1:1/"
	if err := parkIn(t, b.publisher(t), "away"); err != nil {
		t.Errorf("who parks while RabbitMQ is away is told %v", err)
	}
}

// publisher returns one that knows both servers.
func (b *bench) publisher(t *testing.T) *redisbridge.Park {
	t.Helper()
	p, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: b.client, Topology: b.topology, AMQPURL: b.AMQPURL})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func parkIn(t *testing.T, p *redisbridge.Park, id string) error {
	t.Helper()
	_, err := p.Park(t.Context(), &message.Message{ID: id, RoutingKey: "k"}, message.After(time.Hour))
	return err
}

// A broker that was emptied, or is a new one, is told which installation it belongs to.
func TestNewBrokerIsTold(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.installed(t)
	stop := b.run(t, nil)
	b.awaitBeat(t)
	stop()
	b.parkOne(t, "m", message.After(3*time.Second))
	if _, err := b.channel(t).QueuePurge(b.topology.Installation(), false); err != nil {
		t.Fatal(err)
	}
	installation := b.layout(t, "installation")
	b.run(t, nil)
	b.arrivals.awaitID(t, "m")
	b.awaitBeat(t)
	if now := b.layout(t, "installation"); now != installation {
		t.Errorf("installation %s has become %s", installation, now)
	}
	b.empty(t)
	b.awaitCondition(t, health.Foreign)
}

// A Redis that has lost its last writes, in a crash or a failover, is the installation's all the same.
func TestLastWritesMayBeLost(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.installed(t)
	stop := b.run(t, nil)
	b.awaitBeat(t)
	stop()
	if err := b.client.HSet(t.Context(), b.layoutKey(), "beat", 99).Err(); err != nil {
		t.Fatal(err)
	}
	b.run(t, nil)
	until(t, "it catches up with the broker", func() bool { return b.layout(t, "beat") >= "102" })
}

// So is one that has lost its first writes, as a replica that was promoted a moment after the first bridge had begun.
func TestFirstWritesMayBeLost(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	stop := b.run(t, nil)
	b.awaitBeat(t)
	installation := b.layout(t, "installation")
	stop()
	b.empty(t)
	b.run(t, nil)
	b.publishEntry(t, amqp.Publishing{MessageId: "m", Headers: amqp.Table{"x-delay": int64(1100)}})
	b.arrivals.awaitID(t, "m")
	until(t, "it is the same installation", func() bool { return b.layout(t, "installation") == installation })
}
