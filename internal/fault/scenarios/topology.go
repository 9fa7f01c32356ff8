package scenarios

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/internal/fault/shop"
	"github.com/delaybridge/delaybridge/internal/fault/world"
	"github.com/delaybridge/delaybridge/topology"
)

// putBackWithin is what bridges and consumers get to put back what was deleted. A
// bridge that was killed counts as the one that looks for forty seconds more.
const putBackWithin = time.Minute

func topologyScenarios() []Scenario {
	// Nothing else may be broken: a queue is empty only for those who can see all
	// that is on its way there, and what is new must not be killed.
	all := []string{rabbitMQ, rabbitMQNet, redisServer, redisNet, ourProcesses}
	return []Scenario{
		{"empty queue deleted", all, Anywhere, (*injection).deleteQueue},
		{"exchange deleted", all, Anywhere, (*injection).deleteExchange},
		{"binding deleted", all, Anywhere, (*injection).deleteBinding},
		{"target unbound", all, Anywhere, (*injection).unbindTarget},
		{"tiers and lead changed", []string{rabbitMQ, ourProcesses}, Anywhere, (*injection).changeTiers},
		{"topology changed and pruned", []string{rabbitMQ, ourProcesses}, Single | Apart, (*injection).prune},
		{"resharded", []string{rabbitMQ, redisServer, ourProcesses}, Anywhere | Apart, (*injection).reshard},
	}
}

// deleteQueue deletes a tier, a lane, the inbox or the unrouted queue while
// everybody stands still and nothing is in it.
func (i *injection) deleteQueue() error {
	t := i.Topology
	names := []string{t.Inbox(), t.Tiers()[i.rng.IntN(3)].Name, t.Lane(t.Leads()[i.rng.IntN(3)], i.rng.IntN(t.Shards())), t.Unrouted()}
	name := names[i.rng.IntN(len(names))]
	stopped := []*world.Process{i.Processes[world.Customers]}
	if name != t.Inbox() {
		stopped = append(stopped, i.Processes[world.BridgeName(0)], i.Processes[world.BridgeName(1)])
	}
	for _, p := range stopped {
		if err := p.Stop(); err != nil {
			return err
		}
		defer func() { _ = p.Continue() }()
	}
	// What is in a tier or lane goes within its TTL, and what the bridge has taken
	// from the inbox within a moment.
	i.hold(6*time.Second, 6*time.Second)
	if err := i.ClearUnrouted(); err != nil {
		return err
	}
	if err := i.awaitEmpty(name); err != nil {
		return err
	}
	mended := i.breaks("queue %s is deleted", name)
	err := i.WithChannel(func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		if err == nil && q.Messages > 0 {
			err = fmt.Errorf("%s has %d messages, which nobody should have sent", name, q.Messages)
		}
		if err != nil {
			return err
		}
		_, err = ch.QueueDelete(name, false, false, false)
		return err
	})
	for _, p := range stopped {
		_ = p.Continue()
	}
	if err != nil {
		return err
	}
	defer mended()
	return i.awaitBack("queue", name, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		return err
	})
}

// awaitEmpty waits until the broker counts no message in a queue, dead letters
// included that their target has refused and that wait to be tried again. An
// AMQP client does not see those.
func (i *injection) awaitEmpty(name string) error {
	empty := func() bool {
		answer, err := i.Manage(http.MethodGet, "/api/queues/"+world.VHost+"/"+url.PathEscape(name), "")
		var queue struct{ Messages *int } // counted every five seconds, by which time nothing new has come
		return err == nil && json.Unmarshal(answer, &queue) == nil && queue.Messages != nil && *queue.Messages == 0
	}
	if !i.until(time.Minute, empty) {
		return fmt.Errorf("%s is not empty within a minute", name)
	}
	return i.ctx.Err()
}

func (i *injection) deleteExchange() error {
	all := i.Topology.Exchanges()
	e := all[i.rng.IntN(len(all))]
	// The important ones are few among many lanes.
	if important := []string{i.Topology.EntryExchange(), i.Topology.ReadyExchange(), i.Topology.Inbox()}; i.rng.IntN(2) == 0 {
		name := important[i.rng.IntN(len(important))]
		e = all[slices.IndexFunc(all, func(e topology.Exchange) bool { return e.Name == name })]
	}
	delivers := e.Name == i.Topology.ReadyExchange() || e.Name == i.Topology.ReadyExchangeOf(shop.TrackedEntry().Name)
	defer i.breaksAs(history.Event{Detail: "exchange " + e.Name + " is deleted", Splits: delivers})()
	if err := i.WithChannel(func(ch *amqp.Channel) error { return ch.ExchangeDelete(e.Name, false, false) }); err != nil {
		return err
	}
	err := i.awaitBack("exchange", e.Name, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclarePassive(e.Name, e.Kind, true, false, false, false, nil)
	})
	if delivers && err == nil {
		err = errors.Join(i.BindEntry(), i.awaitTarget())
	}
	return err
}

func (i *injection) deleteBinding() error {
	all := i.Topology.Bindings()
	b := all[i.rng.IntN(len(all))]
	defer i.breaks("the binding of %s to %s is deleted", b.Destination, b.Source)()
	err := i.WithChannel(func(ch *amqp.Channel) error {
		if b.ToExchange {
			return ch.ExchangeUnbind(b.Destination, "", b.Source, false, b.Args)
		}
		return ch.QueueUnbind(b.Destination, "", b.Source, b.Args)
	})
	if err != nil {
		return err
	}
	kind := "q"
	if b.ToExchange {
		kind = "e"
	}
	return i.awaitBinding(fmt.Sprintf("/api/bindings/%s/e/%s/%s/%s", world.VHost, url.PathEscape(b.Source), kind, url.PathEscape(b.Destination)), 1)
}

// unbindTarget takes one of the shop's two bindings away. What comes for it
// meanwhile waits in unrouted, and holds nothing else up.
func (i *injection) unbindTarget() error {
	defer i.breaks("%s is no longer bound by %s", shop.Queue, shop.ClosingKey)()
	err := i.WithChannel(func(ch *amqp.Channel) error {
		return ch.QueueUnbind(shop.Queue, shop.ClosingKey, i.Topology.ReadyExchange(), nil)
	})
	if err != nil {
		return err
	}
	return i.awaitTarget()
}

// awaitTarget waits until the consumers have bound their queues again. What has come to unrouted
// meanwhile, or is on its way there, the operator sends on.
func (i *injection) awaitTarget() error {
	for queue, bindings := range map[string]int{shop.Queue: 2, shop.SlowQueue: 1, shop.PlainQueue: 1, shop.MailQueue: 1} {
		path := fmt.Sprintf("/api/bindings/%s/e/%s/q/%s", world.VHost, url.PathEscape(i.Topology.ReadyExchange()), url.PathEscape(queue))
		if err := i.awaitBinding(path, bindings); err != nil {
			return err
		}
	}
	return nil
}

// awaitBack waits until something deleted is there again, and old enough.
func (i *injection) awaitBack(kind, name string, look func(*amqp.Channel) error) error {
	if !i.until(putBackWithin, func() bool { return i.WithChannel(look) == nil }) {
		i.Surprise(fmt.Sprintf("%s %s was not put back within %v", kind, name, putBackWithin))
	}
	i.hold(world.SettleIn, world.SettleIn)
	return i.ctx.Err()
}

func (i *injection) awaitBinding(path string, least int) error {
	back := func() bool {
		answer, err := i.Manage(http.MethodGet, path, "")
		var list []json.RawMessage
		return err == nil && json.Unmarshal(answer, &list) == nil && len(list) >= least
	}
	if !i.until(putBackWithin, back) {
		i.Surprise(fmt.Sprintf("%s: the binding was not put back within %v", path, putBackWithin))
	}
	return i.ctx.Err()
}
