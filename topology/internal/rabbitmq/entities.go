package rabbitmq

import (
	"context"
	"fmt"
	"net/url"
	"strings"
)

// Kinds of entities, as the management API spells them.
const (
	KindExchange = "exchange"
	KindQueue    = "queue"
	KindBinding  = "binding"
)

// Management asks the management API. {vhost} in path stands for its virtual host.
type Management interface {
	Get(ctx context.Context, path string, into any) error
}

// Queue is a queue as the management API shows it. From Policy on all comes from
// statistics: it is absent at first, and up to ten seconds old.
type Queue struct {
	Name            string         `json:"name"`
	Type            string         `json:"type"`
	Durable         bool           `json:"durable"`
	AutoDelete      bool           `json:"auto_delete"`
	Exclusive       bool           `json:"exclusive"`
	Arguments       map[string]any `json:"arguments"`
	Policy          string         `json:"policy"`
	OperatorPolicy  string         `json:"operator_policy"`
	EffectivePolicy map[string]any `json:"effective_policy_definition"` // nil without statistics
	Messages        *int           `json:"messages"`                    // ready, unacknowledged, and dead letters not confirmed yet
	Ready           *int           `json:"messages_ready"`
	Unacknowledged  *int           `json:"messages_unacknowledged"`
	Consumers       int            `json:"consumers"`
}

// Policies names what the effective policy is made of.
func (q Queue) Policies() string {
	user, operator := fmt.Sprintf("policy %q", q.Policy), fmt.Sprintf("operator policy %q", q.OperatorPolicy)
	switch {
	case q.OperatorPolicy == "":
		return user
	case q.Policy == "":
		return operator
	}
	return user + " or " + operator
}

// NotTaken returns how many messages are due, and not taken yet by the queue that they are
// dead-lettered to. It returns false without statistics.
func (q Queue) NotTaken() (int, bool) {
	if q.Messages == nil || q.Ready == nil || q.Unacknowledged == nil {
		return 0, false
	}
	return max(0, *q.Messages-*q.Ready-*q.Unacknowledged), true
}

// Exchange is an exchange as the management API shows it.
type Exchange struct {
	Name       string         `json:"name"`
	Type       string         `json:"type"`
	Durable    bool           `json:"durable"`
	AutoDelete bool           `json:"auto_delete"`
	Internal   bool           `json:"internal"`
	Arguments  map[string]any `json:"arguments"`
	Stats      struct {
		In struct {
			Rate float64 `json:"rate"` // of messages a second that were published to it
		} `json:"publish_in_details"`
	} `json:"message_stats"` // up to ten seconds old
}

// Binding is a binding as the management API shows it.
type Binding struct {
	Source          string         `json:"source"`
	Destination     string         `json:"destination"`
	DestinationType string         `json:"destination_type"` // KindExchange or KindQueue
	RoutingKey      string         `json:"routing_key"`
	PropertiesKey   string         `json:"properties_key"` // of key and arguments, in the binding's address
	Arguments       map[string]any `json:"arguments"`
}

// Name is source -> destination.
func (b Binding) Name() string { return b.Source + " -> " + b.Destination }

// Details writes for people what the binding lets through.
func (b Binding) Details() string { return BindingDetails(b.RoutingKey, b.Arguments) }

// Path is that of the binding below /api, with {vhost} for the virtual host.
func (b Binding) Path() string {
	destination := "q"
	if b.DestinationType == KindExchange {
		destination = "e"
	}
	return strings.Join([]string{
		"bindings/{vhost}/e", url.PathEscape(b.Source), destination, url.PathEscape(b.Destination), url.PathEscape(b.PropertiesKey),
	}, "/")
}

// Queues returns all queues of the virtual host by name.
func Queues(ctx context.Context, m Management) (map[string]Queue, error) {
	var list []Queue
	err := m.Get(ctx, "queues/{vhost}", &list)
	byName := make(map[string]Queue, len(list))
	for _, q := range list {
		byName[q.Name] = q
	}
	return byName, err
}

// Exchanges returns all exchanges of the virtual host by name.
func Exchanges(ctx context.Context, m Management) (map[string]Exchange, error) {
	var list []Exchange
	err := m.Get(ctx, "exchanges/{vhost}", &list)
	byName := make(map[string]Exchange, len(list))
	for _, x := range list {
		byName[x.Name] = x
	}
	return byName, err
}

// Bindings returns all bindings of the virtual host.
func Bindings(ctx context.Context, m Management) (list []Binding, err error) {
	return list, m.Get(ctx, "bindings/{vhost}", &list)
}
