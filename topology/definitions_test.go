package topology_test

import (
	"cmp"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/definitions"
)

// The broker exports what Apply has created as these definitions.
func TestDefinitionsAreWhatApplyCreates(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply(t)
	b.exports(t, "after apply")
}

// What the broker imports from definitions is complete: Verify finds no drift, Apply has nothing to add, and a
// delay works.
func TestDefinitionsCanBeImported(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	text, err := json.Marshal(definitions.Of(b.Topology, b.env.VHost))
	if err != nil {
		t.Fatal(err)
	}
	b.manage(t, http.MethodPost, "/api/definitions", string(text))
	b.verifiedWithout(t)
	b.exports(t, "after the import")
	// A binding that differed by no more than the type of a number would be there twice after this.
	if changes := b.apply(t); len(changes) != 0 {
		t.Errorf("apply still created %v", changes)
	}
	b.exports(t, "after import and apply")
	// Into one virtual host, as a user may who is no administrator.
	b.manage(t, http.MethodPost, "/api/definitions/"+b.env.VHost, string(text))
	b.exports(t, "after a second import")

	b.publish(t, b.EntryExchange(), "order.unpaid", amqp.Publishing{
		MessageId: "o-1", Headers: amqp.Table{"x-delay": time.Second.Milliseconds()},
	})
	if d := b.await(t, b.Unrouted()); d.MessageId != "o-1" || d.RoutingKey != "order.unpaid" {
		t.Errorf("got %q with routing key %q", d.MessageId, d.RoutingKey)
	}
}

// exports expects the broker to export the virtual host as the definitions, no more and no less.
func (b *bench) exports(t *testing.T, when string) {
	t.Helper()
	var d definitions.Definitions
	if err := json.Unmarshal([]byte(b.manage(t, http.MethodGet, "/api/definitions/"+b.env.VHost, "")), &d); err != nil {
		t.Fatal(err)
	}
	// The export of one virtual host does not name it.
	if got, want := sorted(t, d), sorted(t, definitions.Of(b.Topology, "")); !reflect.DeepEqual(got, want) {
		t.Errorf("%s the broker has\n%+v\nwant\n%+v", when, got, want)
	}
}

// sorted brings definitions into one order, and their numbers into the one type of JSON.
func sorted(t *testing.T, d definitions.Definitions) definitions.Definitions {
	t.Helper()
	slices.SortFunc(d.Exchanges, func(a, b definitions.Exchange) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(d.Queues, func(a, b definitions.Queue) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(d.Bindings, func(a, b definitions.Binding) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.DestinationType, b.DestinationType), cmp.Compare(a.Destination, b.Destination))
	})
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var again definitions.Definitions
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	return again
}
