package topology_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology"
)

func (b *bench) delete(ctx context.Context, withMessages ...string) ([]topology.Change, error) {
	return b.Delete(ctx, b.conn, b.management, topology.DeleteOptions{WithMessages: withMessages})
}

func TestDeleteWhereNothingIs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if changes, err := b.delete(t.Context()); err != nil || len(changes) != 0 {
		t.Errorf("deleted %v (%v)", changes, err)
	}
}

func TestDeleteRemovesEverythingAndSaysSo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	// It has tiers that b does not describe, and an entry.
	old := describe(t, topology.Config{Prefix: b.Prefix(), Shards: 1, Entries: append(b.Entries(), topology.Entry{Name: "old", Kind: "direct"})})
	if _, err := old.Apply(t.Context(), b.conn); err != nil {
		t.Fatal(err)
	}
	b.orders(t)
	gold := b.Prefix() + ".tier.gold" // somebody else's, but for its name
	if _, err := b.channel(t).QueueDeclare(gold, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	if err := b.channel(t).QueueBind("orders", "k", b.ReadyExchangeOf("old"), false, nil); err != nil {
		t.Fatal(err)
	}
	changes, err := b.delete(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := b.existing(t); len(got) != 1 || !strings.HasSuffix(got[0], gold) {
		t.Errorf("still there: %v, want %s alone", got, gold)
	}
	if want := len(old.Exchanges()) + len(old.Queues()) + 2; len(changes) != want {
		t.Errorf("%d deletions, want %d: %v", len(changes), want, changes)
	}
	if want := (topology.Change{Action: "delete", Kind: "exchange", Name: b.EntryExchange(), Details: "headers"}); changes[0] != want {
		t.Errorf("began with %+v, want %+v", changes[0], want)
	}
	for _, want := range []topology.Change{
		{Action: "delete", Kind: "binding", Name: b.ReadyExchange() + " -> orders", Details: "routing key order.*"},
		{Action: "delete", Kind: "binding", Name: b.ReadyExchangeOf("old") + " -> orders", Details: "routing key k"},
	} {
		if !slices.Contains(changes, want) {
			t.Errorf("%+v is missing in %v", want, changes)
		}
	}
	if b.ready(t, "orders") != 0 {
		t.Error("the consumer's queue has messages")
	}
}

// refused checks that a deletion was refused for one message in a queue, and
// that everything is as it was.
func (b *bench) refused(t *testing.T, queue string, changes []topology.Change, err error) {
	t.Helper()
	var held *topology.HeldError
	if !errors.As(err, &held) || len(changes) != 0 {
		t.Fatalf("deleted %v, error %v, want a HeldError", changes, err)
	}
	if want := (map[string]int{queue: 1}); !maps.Equal(held.Queues, want) {
		t.Errorf("held by %v, want %v", held.Queues, want)
	}
	for _, want := range []string{"nothing was deleted", "queue " + queue + " still holds messages (1)", "name it to lose them"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
	for _, d := range b.verify(t) {
		if d.Field != "consumers" { // until 4.2 a message that was got counts as one
			t.Errorf("drift: %+v", d)
		}
	}
}

func TestDeleteRefusesWhileAMessageWaits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply(t)
	tier := b.Tiers()[1].Name
	b.publish(t, tier, "order.created", amqp.Publishing{})
	changes, err := b.delete(t.Context())
	b.refused(t, tier, changes, err)
}

func TestDeleteRefusesWhileAMessageIsUnacknowledged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply(t)
	b.publish(t, b.Inbox(), "order.created", amqp.Publishing{})
	if _, ok, err := b.channel(t).Get(b.Inbox(), false); err != nil || !ok {
		t.Fatalf("got a message: %v (%v)", ok, err)
	}
	changes, err := b.delete(t.Context())
	b.refused(t, b.Inbox(), changes, err)
}

func TestDeleteRefusesWhileADeadLetterIsUnconfirmed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply(t)
	ch := b.channel(t)
	if _, err := ch.QueueDeclare("full", true, false, false, false, amqp.Table{
		"x-queue-type": "quorum", "x-max-length": int64(1), "x-overflow": "reject-publish",
	}); err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind("full", "#", b.ReadyExchange(), false, nil); err != nil {
		t.Fatal(err)
	}
	// A queue notices only after a while that it is full, and takes some more.
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a full queue", func() bool {
		c, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "", "full", false, false, amqp.Publishing{})
		if err != nil {
			t.Fatal(err)
		}
		taken, err := c.WaitContext(t.Context())
		return err == nil && !taken
	})
	tier := b.Tiers()[0].Name
	b.publish(t, tier, "order.created", amqp.Publishing{})
	eventually(t, "the message to expire", func() bool { return b.ready(t, tier) == 0 })
	changes, err := b.delete(t.Context())
	b.refused(t, tier, changes, err)
}

// gone waits until Delete has closed the entrance.
func (b *bench) gone(t testing.TB) {
	t.Helper()
	eventually(t, "the entrance to be closed", func() bool { return !slices.Contains(b.list(t, "exchanges"), b.EntryExchange()) })
}

func TestDeleteStopsAtAMessageThatAppearsMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply(t)
	type result struct {
		changes []topology.Change
		err     error
	}
	done := make(chan result, 1)
	go func() {
		changes, err := b.delete(t.Context())
		done <- result{changes, err}
	}()
	b.gone(t)
	tier := b.Tiers()[1].Name
	b.publish(t, "", tier, amqp.Publishing{})
	r := <-done
	b.refused(t, tier, r.changes, r.err)
}

func TestDeleteOpensTheEntranceAgainWhenInterrupted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := b.delete(ctx)
		done <- err
	}()
	b.gone(t)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want Canceled", err)
	}
	b.verifiedWithout(t)
}

func TestDeleteWithMessages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	// A tier that holds its messages until all is deleted, on a slow cluster too.
	b.Topology = describe(t, topology.Config{
		Prefix: b.env.Prefix, Tiers: []time.Duration{time.Second, time.Hour}, Lead: time.Second, Shards: 1,
	})
	b.apply(t)
	tier := b.Tiers()[1].Name
	for range 3 {
		b.publish(t, tier, "order.created", amqp.Publishing{})
	}
	changes, err := b.delete(t.Context(), tier)
	if err != nil {
		t.Fatal(err)
	}
	if want := (topology.Change{Action: "delete", Kind: "queue", Name: tier, Details: "with 3 messages"}); !slices.Contains(changes, want) {
		t.Errorf("%+v is missing in %v", want, changes)
	}
	if got := b.existing(t); len(got) != 0 {
		t.Errorf("still there: %v", got)
	}
}

func TestDeleteGivesUpOnlyWhatIsNamed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply(t)
	tier := b.Tiers()[1].Name
	b.publish(t, tier, "order.created", amqp.Publishing{})
	changes, err := b.delete(t.Context(), b.Inbox())
	b.refused(t, tier, changes, err)
}

func TestDeleteKnowsTheQueuesThatAreNamed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply(t)
	if _, err := b.delete(t.Context(), "orders"); err == nil || !strings.Contains(err.Error(), "queue orders") {
		t.Errorf("got %v", err)
	}
	if got := b.existing(t); len(got) != len(b.Exchanges())+len(b.Queues()) {
		t.Errorf("only %v is left", got)
	}
}

// What forbids a deletion beside the queues does so at the beginning, and at the end, when
// messages may have left the inbox meanwhile.
func TestDeleteAsksTwiceWhetherItMay(t *testing.T) {
	t.Parallel()
	for refusing := range 2 {
		b := newBench(t)
		b.apply(t)
		parked, calls := errors.New("parked"), 0
		changes, err := b.Delete(t.Context(), b.conn, b.management, topology.DeleteOptions{Check: func(context.Context) error {
			if calls++; calls > refusing {
				return parked
			}
			return nil
		}})
		if !errors.Is(err, parked) || len(changes) != 0 || calls != refusing+1 {
			t.Errorf("call %d: deleted %v (%v)", calls, changes, err)
		}
		b.verifiedWithout(t)
	}
}
