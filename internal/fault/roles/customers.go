package roles

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/internal/fault/shop"
	"github.com/delaybridge/delaybridge/internal/sleep"
	"github.com/delaybridge/delaybridge/producer"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

const (
	// PublishPatience is how long one attempt to publish may take.
	PublishPatience = 10 * time.Second
	// RelayedWithin is how long a message may be in an outbox, whatever happens to the relays.
	RelayedWithin = time.Minute
	leaveWithin   = 30 * time.Second // to finish when the shop closes
	atOnce        = 500              // customers under way
)

// customers place orders at a steady rate and publish their messages. Some pay, and
// some cancel or reschedule.
type customers struct {
	*player
	store    *shop.OrderStores
	outboxes *shop.Outboxes
	park     *redisbridge.Park
	producers
	elder   *producers   // those with the configuration before this one; nil where there are none
	conn    *broker.Conn // of the foreign clients
	foreign *broker.Publisher
	inside  sync.WaitGroup
}

// producers have the same configuration.
type producers struct {
	untracked *producer.Producer // which leaves to the broker what equals a tier
	tracked   *producer.Producer // which parks everything
}

func (p *player) producersOf(t *topology.Topology, park *redisbridge.Park) (made producers, err error) {
	config := producer.Config{AMQPURL: p.AMQP, Topology: t, Parker: park, ConnectionName: p.Name, Logger: p.log}
	if made.tracked, err = producer.New(config); err != nil {
		return made, err
	}
	config.Untracked = true
	made.untracked, err = producer.New(config)
	return made, err
}

func (p *player) customers(ctx context.Context) error {
	store, err := shop.OpenOrderStores(ctx, p.Stores)
	if err != nil {
		return err
	}
	defer func() { _ = store.Shut() }()
	boxes, err := shop.OpenOutboxes(ctx, p.Stores)
	if err != nil {
		return err
	}
	defer func() { _ = boxes.Shut() }()
	park, closePark, err := p.openPark()
	if err != nil {
		return err
	}
	defer closePark()
	now, err := p.producersOf(p.topology, park)
	if err != nil {
		return err
	}
	conn, err := broker.New(broker.Config{URL: p.AMQP, Name: p.Name + ", foreign", Logger: p.log})
	if err != nil {
		return err
	}
	c := &customers{player: p, store: store, outboxes: boxes, park: park, producers: now, conn: conn, foreign: broker.NewPublisher(conn)}
	runs := []func(context.Context) error{now.tracked.Run, now.untracked.Run, conn.Run}
	if p.Elder != nil {
		closeElder, err := c.openElder()
		if err != nil {
			return err
		}
		defer closeElder()
		runs = append(runs, c.elder.tracked.Run, c.elder.untracked.Run)
	}

	connected, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	var connections sync.WaitGroup
	failed := make([]error, len(runs))
	for n, run := range runs {
		connections.Go(func() { failed[n] = run(connected) })
	}
	c.open(ctx)
	hangUp()
	connections.Wait()
	return errors.Join(failed...)
}

// openElder makes the producers that have the configuration before this one.
func (c *customers) openElder() (closePark func(), err error) {
	before, err := topology.New(*c.Elder)
	if err != nil {
		return nil, err
	}
	park, closePark, err := c.openParkOf(before)
	if err != nil {
		return nil, err
	}
	elder, err := c.producersOf(before, park)
	if err != nil {
		closePark()
		return nil, err
	}
	c.elder = &elder
	return closePark, nil
}

// producersFor returns those that publish an order: every second one is left to the elder.
func (c *customers) producersFor(o *shop.Order) producers {
	if n, ok := shop.OrderNumber(o.ID); ok && n%2 == 0 && c.elder != nil {
		return *c.elder
	}
	return c.producers
}

// open lets customers in until ctx ends, and waits until they have left.
func (c *customers) open(ctx context.Context) {
	inside, everybodyOut := context.WithCancel(context.WithoutCancel(ctx))
	defer everybodyOut()
	room := make(chan struct{}, atOnce)
	every := time.Duration(float64(time.Second) / c.Rate)
	c.inside.Go(func() { c.keepListing(ctx) })
	next := int(time.Duration(history.Now()-c.Began)*time.Microsecond/every) + 1
	for ctx.Err() == nil {
		at := c.Began + int64(next)*every.Microseconds()
		sleep.For(ctx, time.Duration(at-history.Now())*time.Microsecond)
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			continue
		}
		o := shop.PlanOrder(c.Seed, next)
		if at+(o.Wait+o.Delay).Microseconds() < c.Ends {
			o.Delay += o.Wait
		}
		next++
		c.inside.Go(func() {
			c.serve(inside, &o)
			<-room
		})
	}
	stop := time.AfterFunc(leaveWithin, everybodyOut)
	defer stop.Stop()
	c.inside.Wait()
}
