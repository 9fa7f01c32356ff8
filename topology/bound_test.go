package topology_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology"
)

// outward are bindings from the ready exchange of b's entry to others.
func (b *bench) outward() []topology.Binding {
	ready := b.ReadyExchangeOf("audit")
	return []topology.Binding{
		{Source: ready, Destination: "theirs", Key: "k"},
		{Source: ready, Destination: "theirs", Key: "l"},
		{Source: ready, Destination: "their exchange", ToExchange: true},
		{Source: ready, Destination: b.ReadyExchange(), ToExchange: true},
	}
}

func TestBindingsToOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	bound := b.WithBindings(b.outward()...)

	changes, err := bound.Apply(t.Context(), b.conn)
	var missing *topology.MissingError
	if !errors.As(err, &missing) || !slices.Equal(missing.Queues, []string{"theirs"}) || !slices.Equal(missing.Exchanges, []string{"their exchange"}) {
		t.Fatalf("applied %v, error %v, want a MissingError with both", changes, err)
	}
	if got := b.list(t, "queues"); len(got) != 0 {
		t.Errorf("queues %v were created nevertheless", got)
	}

	ch := b.channel(t)
	if _, err := ch.QueueDeclare("theirs", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.ExchangeDeclare("their exchange", amqp.ExchangeFanout, false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	planned, err := bound.Plan(t.Context(), b.conn)
	if err != nil {
		t.Fatal(err)
	}
	want := topology.Change{Action: "create", Kind: "binding", Name: b.ReadyExchangeOf("audit") + " -> theirs", Details: "routing key l"}
	if !slices.Contains(planned, want) {
		t.Errorf("%+v is missing in %v", want, planned)
	}
	for range 2 {
		if _, err := bound.Apply(t.Context(), b.conn); err != nil {
			t.Fatal(err)
		}
	}
	b.verifiedWithout(t)
	b.publish(t, b.EntryExchangeOf("audit"), "k", amqp.Publishing{MessageId: "1", Headers: amqp.Table{"x-delay": int64(0)}})
	if got := b.await(t, "theirs"); got.MessageId != "1" {
		t.Errorf("got %q", got.MessageId)
	}
}

func TestBindingsToOthersThatTheUserMayNotMake(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ch := b.channel(t)
	if _, err := ch.QueueDeclare("theirs", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare("exclusive", false, false, true, false, nil); err != nil {
		t.Fatal(err)
	}
	own := `^` + b.Prefix() + `\\.|^exclusive$`
	conn := dial(t, b.user(t, `{"configure":"`+own+`","write":"`+own+`","read":"`+own+`"}`))
	ready := b.ReadyExchangeOf("audit")
	bound := b.WithBindings(
		topology.Binding{Source: ready, Destination: "theirs", Key: "k"}, topology.Binding{Source: ready, Destination: "exclusive"})
	_, err := bound.Apply(t.Context(), conn)
	var denied *topology.PermissionError
	if !errors.As(err, &denied) || denied.Permission != "write" || !slices.Equal(denied.Names, []string{"theirs"}) || !strings.HasSuffix(denied.Pattern, "|^theirs$") {
		t.Errorf("error %v, want a PermissionError for theirs", err)
	}
	if err == nil || !strings.Contains(err.Error(), "queue exclusive is exclusive") {
		t.Errorf("error %v, want one that names the exclusive queue", err)
	}
	for _, name := range b.list(t, "exchanges") {
		if strings.HasPrefix(name, b.Prefix()) {
			t.Errorf("%s was created nevertheless", name)
		}
	}
}

// To bind a queue takes write permission, and no other.
func TestBindingsToOthersThatTheUserMayOnlyWriteTo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if _, err := b.channel(t).QueueDeclare("theirs", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	own := `^` + b.Prefix() + `\\.`
	conn := dial(t, b.user(t, `{"configure":"`+own+`","write":"`+own+`|^(theirs|missing)$","read":"`+own+`"}`))
	ready := b.ReadyExchangeOf("audit")
	theirs := topology.Binding{Source: ready, Destination: "theirs", Key: "k"}
	_, err := b.WithBindings(theirs, topology.Binding{Source: ready, Destination: "missing"}).Apply(t.Context(), conn)
	if err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("error %v, want one that names the missing queue", err)
	}
	if slices.Contains(b.list(t, "exchanges"), b.EntryExchangeOf("audit")) {
		t.Error("the entry exchange was created nevertheless")
	}
	if _, err := b.WithBindings(theirs).Apply(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	b.publish(t, b.EntryExchangeOf("audit"), "k", amqp.Publishing{MessageId: "1", Headers: amqp.Table{"x-delay": int64(0)}})
	b.await(t, "theirs")
}
