package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/printable"
)

const (
	// sampleSize is how many messages of the unrouted queue are looked at.
	sampleSize = 200
	// mostKeys is how many routing keys get a finding of their own.
	mostKeys = 10
)

// route is where a message was to be routed, in vain.
type route struct{ exchange, key string }

// unrouted looks at the first messages of the unrouted queue, which stay there.
func (x *examination) unrouted(ctx context.Context) ([]Finding, error) {
	sample, total, err := x.sample(ctx)
	if err != nil || len(sample) == 0 {
		return nil, err
	}
	counts := map[route]int{}
	var routes []route
	for _, d := range sample {
		r := x.routeOf(d)
		if counts[r]++; counts[r] == 1 {
			routes = append(routes, r)
		}
	}
	slices.SortStableFunc(routes, func(a, b route) int { return cmp.Compare(counts[b], counts[a]) })
	var bindings []binding
	if x.Management != nil {
		err = x.Management.Get(ctx, "bindings/{vhost}", &bindings)
	}
	var findings []Finding
	for _, r := range routes[:min(len(routes), mostKeys)] {
		found := fmt.Sprintf("%d of the first %d of %d messages in %s", counts[r], len(sample), total, x.Topology.Unrouted())
		var commands []string
		warning := ""
		switch bound := x.boundNow(bindings, r); {
		case bound != "":
			found += "; " + bound + " is bound for it by now"
		case x.Management != nil:
			commands, warning = append(commands, x.bind(r)), x.wildcards(r)
		}
		f := find(unroutedHolds, "routing key "+r.key, found, append(commands, "rabbitmq-plugins enable rabbitmq_shovel", x.shovel())...)
		f.Do = warning + f.Do
		findings = append(findings, f)
	}
	return findings, err
}

// sample gets messages and gives them back. To the broker that is a delivery, of
// which the queue allows any number.
func (x *examination) sample(ctx context.Context) (sample []amqp.Delivery, total int, err error) {
	ch, err := x.conn.Channel(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = ch.Close() }()
	for len(sample) < sampleSize {
		d, ok, err := ch.Get(x.Topology.Unrouted(), false)
		if closed := new(amqp.Error); errors.As(err, &closed) && closed.Code == amqp.NotFound {
			return nil, 0, nil // which the check of the topology says
		}
		if err != nil {
			return nil, 0, err
		}
		if !ok {
			break
		}
		sample = append(sample, d)
		total = max(total, int(d.MessageCount)+len(sample))
	}
	if len(sample) > 0 {
		err = ch.Nack(sample[len(sample)-1].DeliveryTag, true, true)
	}
	return sample, total, err
}

// routeOf tells to which ready exchange a message came. On its way through the
// exchanges of entries it keeps the name of the first.
func (x *examination) routeOf(d amqp.Delivery) route {
	t := x.Topology
	if d.Exchange == t.RetryExchange() {
		return route{d.Exchange, d.RoutingKey}
	}
	return route{t.ReadyExchangeOf(t.Message(&d).Entry), d.RoutingKey}
}

// boundNow names what an exchange leads a key to by now. Of a headers exchange that
// depends on more than the key.
func (x *examination) boundNow(bindings []binding, r route) string {
	kind := x.kindOf(r.exchange)
	for _, b := range bindings {
		leads := false
		switch kind {
		case amqp.ExchangeTopic:
			leads = topicMatches(words(b.RoutingKey), words(r.key))
		case amqp.ExchangeDirect:
			leads = b.RoutingKey == r.key
		case amqp.ExchangeFanout:
			leads = true
		}
		if b.Source == r.exchange && leads {
			return b.DestinationType + " " + b.Destination
		}
	}
	return ""
}

// kindOf returns the type of one of our exchanges.
func (x *examination) kindOf(exchange string) string {
	for _, e := range x.Topology.Exchanges() {
		if e.Name == exchange {
			return e.Kind
		}
	}
	return amqp.ExchangeTopic
}

// wildcards warns of a key that is a pattern once a queue is bound by it.
func (x *examination) wildcards(r route) string {
	if x.kindOf(r.exchange) != amqp.ExchangeTopic || !slices.ContainsFunc(words(r.key), func(word string) bool { return word == "*" || word == "#" }) {
		return ""
	}
	return "the key has wildcards: a queue that is bound by it gets the messages of other keys, too; "
}

// words are those of a routing key; an empty one has none.
func words(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

// topicMatches tells whether a topic exchange takes a binding's words for a key's.
func topicMatches(pattern, key []string) bool {
	switch {
	case len(pattern) == 0:
		return len(key) == 0
	case pattern[0] == "#":
		return topicMatches(pattern[1:], key) || len(key) > 0 && topicMatches(pattern, key[1:])
	case len(key) == 0:
		return false
	}
	return (pattern[0] == "*" || pattern[0] == key[0]) && topicMatches(pattern[1:], key[1:])
}

// bind is the command that binds a queue. That of a retry is known.
func (x *examination) bind(r route) string {
	queue := "QUEUE"
	if r.exchange == x.Topology.RetryExchange() {
		queue = pathSegment(r.key)
	}
	body, _ := json.Marshal(map[string]any{"routing_key": r.key, "arguments": map[string]any{}}) // of strings
	return "curl -u USER -H 'content-type: application/json' -X POST " +
		printable.Shell(x.Management.Address("bindings/{vhost}/e/"+pathSegment(r.exchange)+"/q/"+queue)) + " -d " + printable.Shell(printable.Text(string(body))) // the same to JSON
}

// shovel is the command that has the broker publish anew what is in the unrouted queue
// now: without a destination each message goes where it was published last, with its
// routing key and x-death, by which Topology.Message tells whose headers count. To a ready
// exchange, those of a stranger would. The shovel ends by itself.
func (x *examination) shovel() string {
	here := "amqp:///" + pathSegment(x.vhost())
	body, _ := json.Marshal(map[string]any{ // of strings
		"src-protocol": "amqp091", "src-uri": here, "src-queue": x.Topology.Unrouted(), "src-delete-after": "queue-length",
		"dest-protocol": "amqp091", "dest-uri": here,
	})
	return "rabbitmqctl set_parameter " + x.on() + " shovel " + printable.Shell(x.Topology.Unrouted()) + " " + printable.Shell(printable.Text(string(body)))
}
