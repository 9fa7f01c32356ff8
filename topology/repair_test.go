package topology_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology"
)

// repair returns the names of what it created.
func (b *bench) repair(t *testing.T) []string {
	t.Helper()
	changes, err := b.Repair(t.Context(), b.conn)
	if err != nil {
		t.Fatal(err)
	}
	return names(changes)
}

func names(changes []topology.Change) []string {
	var names []string
	for _, c := range changes {
		names = append(names, c.Kind+" "+c.Name)
	}
	slices.Sort(names)
	return names
}

func TestRepairCreatesWhatIsMissing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if got, want := len(b.repair(t)), len(b.Queues())+len(b.Exchanges()); got != want {
		t.Errorf("created %d of %d entities", got, want)
	}
	b.verifiedWithout(t)
	if got := b.repair(t); len(got) != 0 {
		t.Errorf("created %v where nothing was missing", got)
	}

	ch, lane := b.channel(t), b.Lane(time.Second, 0)
	_, err := ch.QueueDelete(lane, false, false, false)
	for _, err := range []error{
		err,
		ch.ExchangeDelete(b.ReadyExchange(), false, false),
		ch.QueueUnbind(b.Inbox(), "", b.Inbox(), nil),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"exchange " + b.ReadyExchange(), "queue " + lane}
	if got := b.repair(t); !slices.Equal(got, want) {
		t.Errorf("created %v, want %v", got, want)
	}
	b.verifiedWithout(t)
}

func TestRepairGoesOnAfterAMismatch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if _, err := b.channel(t).QueueDeclare(b.Unrouted(), true, false, false, false, amqp.Table{"x-queue-type": "classic"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{len(b.Queues()) + len(b.Exchanges()) - 1, 0} {
		changes, err := b.Repair(t.Context(), b.conn)
		mismatch, ok := errors.AsType[*topology.MismatchError](err)
		if !ok || mismatch.Name != b.Unrouted() || errors.Is(err, topology.ErrIncomplete) {
			t.Errorf("got %v, want a MismatchError for %s alone", err, b.Unrouted())
		}
		if len(changes) != want {
			t.Errorf("created %v, want %d", names(changes), want)
		}
	}
}

func TestRepairWithoutPermission(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	user := dial(t, b.user(t, `{"configure":"","write":".*","read":".*"}`))
	for _, step := range []struct {
		name       string
		prepare    func()
		incomplete bool
	}{
		{"nothing is there", func() {}, true},
		{"all is there", func() { b.apply(t) }, false},
	} {
		step.prepare()
		changes, err := b.Repair(t.Context(), user)
		denied, ok := errors.AsType[*topology.PermissionError](err)
		if !ok || denied.Permission != "configure" || len(changes) > 0 {
			t.Errorf("%s: created %v, got %v; want a PermissionError", step.name, changes, err)
		}
		if errors.Is(err, topology.ErrIncomplete) != step.incomplete {
			t.Errorf("%s: got %v; that it is incomplete: want %v", step.name, err, step.incomplete)
		}
	}
}
