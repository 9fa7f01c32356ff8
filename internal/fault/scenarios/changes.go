package scenarios

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/fault/roles"
	"github.com/delaybridge/delaybridge/internal/fault/shop"
	"github.com/delaybridge/delaybridge/internal/fault/world"
	"github.com/delaybridge/delaybridge/internal/sleep"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// changeTiers has one process after the other go over to other tiers, another lead and one
// more entry, and then back.
func (i *injection) changeTiers() error {
	defer i.breaks("tiers and lead are changed")()
	for _, config := range []topology.Config{shop.OtherTopology(), shop.Topology()} {
		t, err := topology.New(config)
		if err != nil {
			return err
		}
		if err := i.applyAndBind(t); err != nil {
			return err
		}
		if err := i.changeAll(func(r *roles.Role) { r.Topology = config }); err != nil {
			return err
		}
		i.hold(0, 5*time.Second)
	}
	return nil
}

// applyAndBind applies a topology, and has the shop's queues get what comes of its added entry.
func (i *injection) applyAndBind(t *topology.Topology) error {
	if err := i.Apply(t); err != nil {
		return err
	}
	sleep.For(i.ctx, world.SettleIn)
	if !t.HasEntry(shop.AddedEntry().Name) {
		return nil
	}
	return i.WithChannel(func(ch *amqp.Channel) error {
		exchange := t.ReadyExchangeOf(shop.AddedEntry().Name)
		return errors.Join(ch.QueueBind(shop.Queue, shop.ClosingKey, exchange, false, nil), ch.QueueBind(shop.Queue, shop.MailKey, exchange, false, nil),
			ch.QueueBind(shop.MailQueue, shop.MailKey, exchange, false, nil))
	})
}

// prunedWithin is what prune gets, with all that it waits for.
const prunedWithin = 5 * time.Minute

// prune goes over to other tiers, another lead and one more entry, and then back, with producers
// of both configurations at once for a while, and prunes after each change: once while the elder
// producers still publish into what goes, and then until nothing is left.
func (i *injection) prune() error {
	defer i.breaks("the topology is changed, and pruned")()
	before := shop.Topology()
	for _, config := range []topology.Config{shop.OtherTopology(), shop.Topology()} {
		t, err := topology.New(config)
		if err != nil {
			return err
		}
		if err := i.applyAndBind(t); err != nil {
			return err
		}
		elder := before
		err = i.changeAll(func(r *roles.Role) {
			if r.Topology = config; r.Kind == roles.Customers {
				r.Elder = &elder
			}
		})
		if err != nil {
			return err
		}
		i.hold(5*time.Second, 8*time.Second)
		if _, err := i.pruneOnce(t, topology.PruneOptions{Force: true}); err != nil {
			i.Say("prune beside elder producers: %v", err)
		}
		if err := i.changeAll(func(r *roles.Role) { r.Elder = nil }); err != nil {
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
		i.Surprise(fmt.Sprintf("not pruned within %v: %v (%v)", prunedWithin, left, err))
	}
	return i.ctx.Err()
}

func (i *injection) pruneOnce(t *topology.Topology, o topology.PruneOptions) (left []topology.Change, err error) {
	if !t.HasEntry(shop.AddedEntry().Name) {
		o.Entries = []string{shop.AddedEntry().Name} // for which queues are bound
	}
	management, err := topology.NewManagement(i.Nodes[0].ManagementURL(), "/")
	if err != nil {
		return nil, err
	}
	conn, err := amqp.Dial(i.Nodes[0].AMQPURL())
	if err != nil {
		return nil, err
	}
	err = i.WithRedis(func(c *redis.Client) error {
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
func (i *injection) changeAll(change func(*roles.Role)) error {
	for _, name := range slices.Sorted(maps.Keys(i.Processes)) {
		p := i.Processes[name]
		if err := p.Terminate(); err != nil {
			return err
		}
		p.Change(change)
		if err := p.Start(nil); err != nil {
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
	for _, n := range []int{shop.Shards + 3, shop.Shards} {
		t, err := i.Topology.WithShards(shop.Shards + 3)
		if err != nil {
			return err
		}
		if err := i.Apply(t); err != nil {
			return err
		}
		err = i.WithRedis(func(c *redis.Client) error {
			park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: c, Topology: i.Topology})
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
			i.Surprise(fmt.Sprintf("not resharded within %v: %+v (%v)", reshardedWithin, r, err))
			break
		}
		p := i.oneBridge()
		hurt, heal := p.Kill, func() error { return p.Start(nil) }
		if i.rng.IntN(3) == 0 {
			hurt, heal = p.Stop, p.Continue
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
