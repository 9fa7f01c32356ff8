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

	"github.com/delaybridge/delaybridge/topology"
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
	definitions, err := json.Marshal(b.Definitions(b.env.VHost))
	if err != nil {
		t.Fatal(err)
	}
	b.manage(t, http.MethodPost, "/api/definitions", string(definitions))
	b.verifiedWithout(t)
	b.exports(t, "after the import")
	// A binding that differed by no more than the type of a number would be there twice after this.
	if changes := b.apply(t); len(changes) != 0 {
		t.Errorf("apply still created %v", changes)
	}
	b.exports(t, "after import and apply")
	// Into one virtual host, as a user may who is no administrator.
	b.manage(t, http.MethodPost, "/api/definitions/"+b.env.VHost, string(definitions))
	b.exports(t, "after a second import")

	b.publish(t, b.EntryExchange(), "order.unpaid", amqp.Publishing{
		MessageId: "o-1", Headers: amqp.Table{"x-delay": time.Second.Milliseconds()},
	})
	if d := b.await(t, b.Unrouted()); d.MessageId != "o-1" || d.RoutingKey != "order.unpaid" {
		t.Errorf("got %q with routing key %q", d.MessageId, d.RoutingKey)
	}
}

func TestDefinitionsAreOfTheirVirtualHost(t *testing.T) {
	t.Parallel()
	d := describe(t, topology.Defaults()).Definitions("shop")
	for _, x := range d.Exchanges {
		if x.VHost != "shop" || !x.Durable || x.Arguments == nil {
			t.Errorf("got %+v", x)
		}
	}
	for _, q := range d.Queues {
		if q.VHost != "shop" || !q.Durable || q.Arguments["x-queue-type"] != "quorum" {
			t.Errorf("got %+v", q)
		}
	}
	for _, b := range d.Bindings {
		if b.VHost != "shop" || b.Arguments == nil || b.DestinationType != "queue" && b.DestinationType != "exchange" {
			t.Errorf("got %+v", b)
		}
	}
}

// exports expects the broker to export the virtual host as the definitions, no more and no less.
func (b *bench) exports(t *testing.T, when string) {
	t.Helper()
	var d topology.Definitions
	if err := json.Unmarshal([]byte(b.manage(t, http.MethodGet, "/api/definitions/"+b.env.VHost, "")), &d); err != nil {
		t.Fatal(err)
	}
	// The export of one virtual host does not name it.
	if got, want := sorted(t, d), sorted(t, b.Definitions("")); !reflect.DeepEqual(got, want) {
		t.Errorf("%s the broker has\n%+v\nwant\n%+v", when, got, want)
	}
}

// sorted brings definitions into one order, and their numbers into the one type of JSON.
func sorted(t *testing.T, d topology.Definitions) topology.Definitions {
	t.Helper()
	slices.SortFunc(d.Exchanges, func(a, b topology.ExchangeDefinition) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(d.Queues, func(a, b topology.QueueDefinition) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(d.Bindings, func(a, b topology.BindingDefinition) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.DestinationType, b.DestinationType), cmp.Compare(a.Destination, b.Destination))
	})
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var again topology.Definitions
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	return again
}
