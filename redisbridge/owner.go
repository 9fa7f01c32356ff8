package redisbridge

import (
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
)

// Owner is the broker that what is parked under a prefix comes out of.
type Owner struct {
	// Cluster is the name of the broker's cluster. It is compared where a person has set
	// both names: otherwise each node gives its own, such as rabbit@host.
	Cluster string `json:"cluster,omitempty"`
	// VHost is the virtual host.
	VHost string `json:"vhost,omitempty"`
}

// OwnerOf returns the owner that an AMQP URL names, whose Cluster is empty: only the broker
// knows it. It does no I/O.
func OwnerOf(amqpURL string) (Owner, error) {
	uri, err := amqp.ParseURI(amqpURL)
	if err != nil {
		return Owner{}, fmt.Errorf("%w: %s", broker.ErrConfiguration, broker.Redact(amqpURL))
	}
	return Owner{VHost: uri.Vhost}, nil
}

// String names both.
func (o Owner) String() string { return store.Owner(o).String() }
