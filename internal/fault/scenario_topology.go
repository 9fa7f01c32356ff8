package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// putBackWithin is what bridges and consumers get to put back what was deleted. A
// bridge that was killed counts as the one that looks for forty seconds more.
const putBackWithin = time.Minute

func topologyScenarios() []scenario {
	// Nothing else may be broken: a queue is empty only for those who can see all
	// that is on its way there, and what is new must not be killed.
	all := []string{rabbitMQ, rabbitMQNet, redisServer, redisNet, ourProcesses}
	return []scenario{
		{"empty queue deleted", all, anywhere, (*injection).deleteQueue},
		{"exchange deleted", all, anywhere, (*injection).deleteExchange},
		{"binding deleted", all, anywhere, (*injection).deleteBinding},
		{"target unbound", all, anywhere, (*injection).unbindTarget},
		{"tiers and lead changed", []string{rabbitMQ, ourProcesses}, anywhere, (*injection).changeTiers},
		{"topology changed and pruned", []string{rabbitMQ, ourProcesses}, single | apart, (*injection).prune},
		{"resharded", []string{rabbitMQ, redisServer, ourProcesses}, anywhere | apart, (*injection).reshard},
	}
}

// changeTiers has one process after the other go over to other tiers, another lead and one
// more entry, and then back.
func (i *injection) changeTiers() error {
	defer i.breaks("tiers and lead are changed")()
	for _, config := range []topology.Config{otherTiers(), shortDelays()} {
		t, err := topology.New(config)
		if err != nil {
			return err
		}
		if err := i.furnishAndBind(t); err != nil {
			return err
		}
		if err := i.changeAll(func(r *role) { r.Topology = config }); err != nil {
			return err
		}
		i.hold(0, 5*time.Second)
	}
	return nil
}

// furnishAndBind applies a topology, and has the shop's queues get what comes of its added entry.
func (i *injection) furnishAndBind(t *topology.Topology) error {
	if err := i.furnish(t); err != nil {
		return err
	}
	pause(i.ctx, settleIn)
	if !t.HasEntry(addedEntry().Name) {
		return nil
	}
	return i.channel(func(ch *amqp.Channel) error {
		exchange := t.ReadyExchangeOf(addedEntry().Name)
		return errors.Join(ch.QueueBind(queue, closingKey, exchange, false, nil), ch.QueueBind(queue, mailKey, exchange, false, nil),
			ch.QueueBind(mailQueue, mailKey, exchange, false, nil))
	})
}

// prunedWithin is what prune gets, with all that it waits for.
const prunedWithin = 5 * time.Minute

// prune goes over to other tiers, another lead and one more entry, and then back, with producers
// of both configurations at once for a while, and prunes after each change: once while the elder
// producers still publish into what goes, and then until nothing is left.
func (i *injection) prune() error {
	defer i.breaks("the topology is changed, and pruned")()
	before := shortDelays()
	for _, config := range []topology.Config{otherTiers(), shortDelays()} {
		t, err := topology.New(config)
		if err != nil {
			return err
		}
		if err := i.furnishAndBind(t); err != nil {
			return err
		}
		elder := before
		err = i.changeAll(func(r *role) {
			if r.Topology = config; r.Kind == "customers" {
				r.Elder = &elder
			}
		})
		if err != nil {
			return err
		}
		i.hold(5*time.Second, 8*time.Second)
		if _, err := i.pruneOnce(t, topology.PruneOptions{Force: true}); err != nil {
			i.say("prune beside elder producers: %v", err)
		}
		if err := i.changeAll(func(r *role) { r.Elder = nil }); err != nil {
			return err
		}
		if err := i.pruneAll(t); err != nil {
			return err
		}
		before = config
	}
	return nil
}

// pruneAll prunes until nothing is left, as an operator does who looks again.
func (i *injection) pruneAll(t *topology.Topology) error {
	var left []topology.Change
	var err error
	done := i.until(prunedWithin, func() bool {
		left, err = i.pruneOnce(t, topology.PruneOptions{Wait: time.Minute})
		return err == nil && len(left) == 0
	})
	if !done && i.ctx.Err() == nil {
		i.surprise(fmt.Sprintf("not pruned within %v: %v (%v)", prunedWithin, left, err))
	}
	return i.ctx.Err()
}

func (i *injection) pruneOnce(t *topology.Topology, o topology.PruneOptions) (left []topology.Change, err error) {
	if !t.HasEntry(addedEntry().Name) {
		o.Entries = []string{addedEntry().Name} // for which queues are bound
	}
	management, err := topology.NewManagement(i.nodes[0].ManagementURL(), "/")
	if err != nil {
		return nil, err
	}
	conn, err := amqp.Dial(i.nodes[0].AMQPURL())
	if err != nil {
		return nil, err
	}
	err = i.store(func(c *redis.Client) error {
		park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: c, Topology: t})
		if err != nil {
			return err
		}
		_, left, err = t.Prune(i.ctx, conn, management, park.PruneOptions(o))
		return err
	})
	return left, errors.Join(err, conn.Close())
}

// changeAll has one process after the other end, and start again with other settings.
func (i *injection) changeAll(change func(*role)) error {
	for _, name := range slices.Sorted(maps.Keys(i.processes)) {
		p := i.processes[name]
		if err := p.terminate(); err != nil {
			return err
		}
		change(&p.role)
		if err := p.start(nil); err != nil {
			return err
		}
	}
	return nil
}

// reshardedWithin is what bridges get to move all messages, though they are killed meanwhile.
const reshardedWithin = 5 * time.Minute

// reshard has the bridges move all messages to more shards, and then back to as many as there were, while one
// of them after the other is killed, or stands still.
func (i *injection) reshard() error {
	defer i.breaks("the number of shards is changed, and bridges are killed")()
	for _, n := range []int{shards + 3, shards} {
		t, err := i.topology.WithShards(shards + 3)
		if err != nil {
			return err
		}
		if err := i.furnish(t); err != nil {
			return err
		}
		err = i.store(func(c *redis.Client) error {
			park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: c, Topology: i.topology})
			if err != nil {
				return err
			}
			if err := i.beginReshard(park, n); err != nil {
				return err
			}
			return i.disturbReshard(park, n)
		})
		if err != nil {
			return err
		}
		i.hold(2*time.Second, 5*time.Second)
	}
	return nil
}

// beginReshard tries again where a bridge that was killed before still counts as alive.
func (i *injection) beginReshard(park *redisbridge.Park, n int) error {
	var err error
	if !i.until(time.Minute, func() bool { err = park.BeginReshard(i.ctx, n); return err == nil }) && i.ctx.Err() == nil {
		return err
	}
	return i.ctx.Err()
}

// disturbReshard kills and stops bridges until all messages have moved.
func (i *injection) disturbReshard(park *redisbridge.Park, n int) error {
	var r redisbridge.Resharding
	var err error
	over := func() bool {
		r, err = park.Resharding(i.ctx)
		return err == nil && r.Next == 0 && r.Shards == n
	}
	for began := time.Now(); !over() && i.ctx.Err() == nil; {
		if time.Since(began) > reshardedWithin {
			i.surprise(fmt.Sprintf("not resharded within %v: %+v (%v)", reshardedWithin, r, err))
			break
		}
		p := i.oneBridge()
		hurt, heal := p.kill, func() error { return p.start(nil) }
		if i.rng.IntN(3) == 0 {
			hurt, heal = p.stop, p.cont
		}
		if err := hurt(); err != nil {
			return err
		}
		i.hold(0, 8*time.Second) // longer than a lease
		if err := heal(); err != nil {
			return err
		}
		i.hold(0, 3*time.Second)
	}
	return i.ctx.Err()
}

// otherTiers is the run's topology while its tiers are changed.
func otherTiers() topology.Config {
	return topology.Config{
		Prefix: prefix, Tiers: []time.Duration{time.Second, 3 * time.Second, 5 * time.Second}, Lead: 3 * time.Second, Shards: shards,
		Entries: []topology.Entry{trackedEntry(), strangers(), addedEntry()},
	}
}

// deleteQueue deletes a tier, a lane, the inbox or the unrouted queue while
// everybody stands still and nothing is in it.
func (i *injection) deleteQueue() error {
	t := i.topology
	names := []string{t.Inbox(), t.Tiers()[i.rng.IntN(3)].Name, t.Lane(t.Leads()[i.rng.IntN(3)], i.rng.IntN(t.Shards())), t.Unrouted()}
	name := names[i.rng.IntN(len(names))]
	stopped := []*process{i.processes[customersName]}
	if name != t.Inbox() {
		stopped = append(stopped, i.processes[bridgeName(0)], i.processes[bridgeName(1)])
	}
	for _, p := range stopped {
		if err := p.stop(); err != nil {
			return err
		}
		defer func() { _ = p.cont() }()
	}
	// What is in a tier or lane goes within its TTL, and what the bridge has taken
	// from the inbox within a moment.
	i.hold(6*time.Second, 6*time.Second)
	if err := i.clearUnrouted(); err != nil {
		return err
	}
	if err := i.awaitEmpty(name); err != nil {
		return err
	}
	mended := i.breaks("queue %s is deleted", name)
	err := i.channel(func(ch *amqp.Channel) error {
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
		_ = p.cont()
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
		answer, err := i.manage(http.MethodGet, "/api/queues/"+vhost+"/"+url.PathEscape(name), "")
		var queue struct{ Messages *int } // counted every five seconds, by which time nothing new has come
		return err == nil && json.Unmarshal(answer, &queue) == nil && queue.Messages != nil && *queue.Messages == 0
	}
	if !i.until(time.Minute, empty) {
		return fmt.Errorf("%s is not empty within a minute", name)
	}
	return i.ctx.Err()
}

func (i *injection) deleteExchange() error {
	all := i.topology.Exchanges()
	e := all[i.rng.IntN(len(all))]
	// The important ones are few among many lanes.
	if important := []string{i.topology.EntryExchange(), i.topology.ReadyExchange(), i.topology.Inbox()}; i.rng.IntN(2) == 0 {
		name := important[i.rng.IntN(len(important))]
		e = all[slices.IndexFunc(all, func(e topology.Exchange) bool { return e.Name == name })]
	}
	delivers := e.Name == i.topology.ReadyExchange() || e.Name == i.topology.ReadyExchangeOf(trackedEntry().Name)
	defer i.breaksAs(history.Event{Detail: "exchange " + e.Name + " is deleted", Splits: delivers})()
	if err := i.channel(func(ch *amqp.Channel) error { return ch.ExchangeDelete(e.Name, false, false) }); err != nil {
		return err
	}
	err := i.awaitBack("exchange", e.Name, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclarePassive(e.Name, e.Kind, true, false, false, false, nil)
	})
	if delivers && err == nil {
		err = errors.Join(i.bindEntry(), i.awaitTarget())
	}
	return err
}

func (i *injection) deleteBinding() error {
	all := i.topology.Bindings()
	b := all[i.rng.IntN(len(all))]
	defer i.breaks("the binding of %s to %s is deleted", b.Destination, b.Source)()
	err := i.channel(func(ch *amqp.Channel) error {
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
	return i.awaitBinding(fmt.Sprintf("/api/bindings/%s/e/%s/%s/%s", vhost, url.PathEscape(b.Source), kind, url.PathEscape(b.Destination)), 1)
}

// unbindTarget takes one of the shop's two bindings away. What comes for it
// meanwhile waits in unrouted, and holds nothing else up.
func (i *injection) unbindTarget() error {
	defer i.breaks("%s is no longer bound by %s", queue, closingKey)()
	err := i.channel(func(ch *amqp.Channel) error {
		return ch.QueueUnbind(queue, closingKey, i.topology.ReadyExchange(), nil)
	})
	if err != nil {
		return err
	}
	return i.awaitTarget()
}

// awaitTarget waits until the consumers have bound their queues again. What has come to unrouted
// meanwhile, or is on its way there, the operator sends on.
func (i *injection) awaitTarget() error {
	for queue, bindings := range map[string]int{queue: 2, slowQueue: 1, plainQueue: 1, mailQueue: 1} {
		path := fmt.Sprintf("/api/bindings/%s/e/%s/q/%s", vhost, url.PathEscape(i.topology.ReadyExchange()), url.PathEscape(queue))
		if err := i.awaitBinding(path, bindings); err != nil {
			return err
		}
	}
	return nil
}

// sendOn publishes what waits in the unrouted queue to the exchange from which it
// came there, and removes it only then: once, since it may come back.
func sendOn(ctx context.Context, ch *amqp.Channel, t *topology.Topology) error {
	if err := ch.Confirm(false); err != nil {
		return err
	}
	waiting, err := ch.QueueDeclarePassive(t.Unrouted(), true, false, false, false, nil)
	if err != nil {
		return err
	}
	for range waiting.Messages {
		d, ok, err := ch.Get(t.Unrouted(), false)
		if err != nil || !ok {
			return err
		}
		// What its publisher has forged must not count from now on.
		m := t.Message(&d)
		to, key := t.ReadyExchangeOf(m.Entry), m.RoutingKey
		if d.Exchange == t.RetryExchange() {
			to, key, m = d.Exchange, d.RoutingKey, m.Retry()
		}
		confirm, err := ch.PublishWithDeferredConfirm(to, key, false, false, m.Publishing(m.Journey))
		if err != nil {
			return err
		}
		if sent, err := confirm.WaitContext(ctx); err != nil || !sent {
			return fmt.Errorf("send %s on: not confirmed: %w", d.MessageId, err)
		}
		if err := d.Ack(false); err != nil {
			return err
		}
	}
	return nil
}

// awaitBack waits until something deleted is there again, and old enough.
func (i *injection) awaitBack(kind, name string, look func(*amqp.Channel) error) error {
	if !i.until(putBackWithin, func() bool { return i.channel(look) == nil }) {
		i.surprise(fmt.Sprintf("%s %s was not put back within %v", kind, name, putBackWithin))
	}
	i.hold(settleIn, settleIn)
	return i.ctx.Err()
}

func (i *injection) awaitBinding(path string, least int) error {
	back := func() bool {
		answer, err := i.manage(http.MethodGet, path, "")
		var list []json.RawMessage
		return err == nil && json.Unmarshal(answer, &list) == nil && len(list) >= least
	}
	if !i.until(putBackWithin, back) {
		i.surprise(fmt.Sprintf("%s: the binding was not put back within %v", path, putBackWithin))
	}
	return i.ctx.Err()
}
