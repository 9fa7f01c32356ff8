package definitions_test

import (
	"testing"

	"github.com/delaybridge/delaybridge/internal/definitions"
	"github.com/delaybridge/delaybridge/topology"
)

// What RabbitMQ makes of the definitions is tested in topology.
func TestDefinitionsAreOfTheirVirtualHost(t *testing.T) {
	t.Parallel()
	described, err := topology.New(topology.Config{})
	if err != nil {
		t.Fatal(err)
	}
	d := definitions.Of(described, "shop")
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
