package world

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/internal/fault/shop"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// emptyQueues lists the messages that lie in any queue. Of what strangers sent, some has to be in quarantine
// since it was over their quota.
func (w *World) emptyQueues(final *history.Final) error {
	refused := false
	err := w.WithChannel(func(ch *amqp.Channel) error {
		names := []string{shop.Queue, shop.SlowQueue, shop.PlainQueue, shop.MailQueue, shop.StrangersQueue}
		if w.HasPython() {
			names = append(names, shop.PythonQueue)
		}
		for _, q := range w.Topology.Queues() {
			if q.Name != w.Topology.Installation() {
				names = append(names, q.Name)
			}
		}
		for _, name := range names {
			for {
				d, ok, err := ch.Get(name, true)
				if err != nil {
					return fmt.Errorf("look into %s: %w", name, err)
				}
				if !ok {
					break
				}
				reason := fmt.Sprint(d.Headers[wire.HeaderError])
				if string(d.Body) == shop.Forged { // its publisher can have it end there
					refused = refused || strings.Contains(reason, redisbridge.ErrQuota.Error())
					continue
				}
				if name == w.Topology.Quarantine() && !w.sent(&d) {
					w.Surprise(fmt.Sprintf("order %s: what lies in quarantine is not what was sent", shop.OrderOf(d.Body)))
				}
				final.Leftover = append(final.Leftover, history.Left{Where: name, Order: shop.OrderOf(d.Body), Reason: reason})
			}
		}
		return nil
	})
	if err == nil && !refused {
		w.Surprise("no flood of a stranger was over its quota")
	}
	return err
}

// sent says whether a message is what was sent for its order.
func (w *World) sent(d *amqp.Delivery) bool {
	n, ok := shop.OrderNumber(shop.OrderOf(d.Body))
	o := shop.PlanOrder(w.Seed, n)
	return ok && o.Intact(w.Topology.Message(d))
}

// lookIntoRedis lists what is still parked. What is kept there for its ID's sake has
// been with the broker.
func (w *World) lookIntoRedis(final *history.Final) error {
	return w.WithRedis(func(c *redis.Client) error {
		keys := c.Scan(w.ctx, 0, "{"+shop.Prefix+":*}:env:*", 1000).Iterator()
		for keys.Next(w.ctx) {
			if strings.HasSuffix(keys.Val(), "env:others") { // which has names of records, and no records
				continue
			}
			ids, err := c.HKeys(w.ctx, keys.Val()).Result()
			if err != nil {
				return err
			}
			shard, _, _ := strings.Cut(keys.Val(), "env:")
			for _, id := range ids {
				switch err := c.ZScore(w.ctx, shard+"kept", id).Err(); {
				case err == nil:
					continue
				case !errors.Is(err, redis.Nil):
					return err
				}
				w.Surprise(fmt.Sprintf("order %s is still parked", id))
				final.Leftover = append(final.Leftover, history.Left{Where: "redis", Order: id})
			}
		}
		return keys.Err()
	})
}

// askRedis notes down where the keys in Redis contradict each other, and which of the orders
// whose cancelling had no answer are cancelled.
func (w *World) askRedis(final *history.Final) error {
	events, err := history.Read(w.HistoryDir())
	if err != nil {
		return err
	}
	return w.WithRedis(func(c *redis.Client) error {
		park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: c, Topology: w.Topology})
		if err != nil {
			return err
		}
		// Redis was killed, which may leave wrong counts behind.
		if final.Contradictions, _, err = park.Verify(w.ctx); err != nil {
			return err
		}
		final.Tombstones = []string{}
		for _, e := range events {
			if e.Kind != history.Cancel || slices.Contains(final.Tombstones, e.Order) {
				continue
			}
			id := history.OrderOf(e.Order)
			entry, messageID := "", id
			if n, ok := shop.OrderNumber(id); ok {
				o := shop.PlanOrder(w.Seed, n)
				entry, messageID = o.Entry, o.MessageID()
			}
			all, err := park.OfEntry(entry).GetAll(w.ctx, messageID)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(all, func(one redisbridge.MessageState) bool { return one.State == redisbridge.StateCancelled }) {
				final.Tombstones = append(final.Tombstones, e.Order)
			}
		}
		return nil
	})
}
