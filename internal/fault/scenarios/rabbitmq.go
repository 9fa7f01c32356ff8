package scenarios

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/fault/shop"
	"github.com/delaybridge/delaybridge/internal/fault/world"
)

func rabbitMQScenarios() []Scenario {
	needs := []string{rabbitMQ}
	return []Scenario{
		{"rabbitmq killed", needs, Single, func(i *injection) error {
			defer i.breaks("kill -9 RabbitMQ")()
			err := i.Nodes[0].Kill(i.ctx)
			i.hold(0, 2*time.Second)
			return errors.Join(err, i.Nodes[0].Restart(i.ctx))
		}},
		{"rabbitmq restarted", needs, Single, func(i *injection) error {
			defer i.breaks("RabbitMQ restarts")()
			return i.Nodes[0].Restart(i.ctx)
		}},
		{"rabbitmq stopped", needs, Single, func(i *injection) error {
			defer i.breaks("RabbitMQ stands still")()
			err := i.Nodes[0].Pause(i.ctx)
			i.hold(500*time.Millisecond, 6*time.Second)
			return errors.Join(err, i.Nodes[0].Resume(i.ctx))
		}},
		{"connections closed", needs, Anywhere, (*injection).closeConnections},
		{"channels closed", needs, Anywhere, (*injection).closeChannels},
		{"memory alarm", needs, Anywhere, func(i *injection) error {
			return i.alarm("memory", "set_vm_memory_high_watermark", "0.000001", "0.4")
		}},
		{"disk alarm", needs, Anywhere, func(i *injection) error {
			return i.alarm("disk space", "set_disk_free_limit", "1000000000000000", "50000000")
		}},
		{"rabbitmq and redis killed", []string{rabbitMQ, redisServer}, Single, func(i *injection) error {
			defer i.breaks("kill -9 RabbitMQ and Redis")()
			err := errors.Join(i.Nodes[0].Kill(i.ctx), i.Redis.Kill(i.ctx))
			i.hold(0, 2*time.Second)
			first, second := i.Nodes[0].Restart, i.Redis.Restart
			if i.rng.IntN(2) == 0 {
				first, second = second, first
			}
			return errors.Join(err, first(i.ctx), second(i.ctx))
		}},
		{"tiers and lanes refuse", needs, Anywhere, func(i *injection) error {
			return i.refuse("^" + shop.Prefix + `\.(tier|lane)\.`)
		}},
		{"inbox refuses", needs, Anywhere, func(i *injection) error {
			return i.refuse("^" + shop.Prefix + `\.inbox$`)
		}},
		{"target refuses", append(allConsumers(), rabbitMQ), Anywhere, (*injection).fillTarget},
	}
}

// alarm has one node be short of something, by a setting, for a while.
func (i *injection) alarm(what, setting, short, usual string) error {
	defer i.breaks("RabbitMQ is short of %s (connection.blocked)", what)()
	node := i.Nodes[i.rng.IntN(len(i.Nodes))]
	_, err := node.Control(i.ctx, setting, short)
	i.hold(time.Second, 4*time.Second)
	_, mend := node.Control(i.ctx, setting, usual)
	return errors.Join(err, mend)
}

// refuse has queues reject what is published, for a while.
func (i *injection) refuse(pattern string) error {
	defer i.breaks("queues %s refuse", pattern)()
	lift, err := i.limit(pattern, 0)
	if err != nil {
		return err
	}
	i.hold(time.Second, 4*time.Second)
	return lift()
}

// limit has queues refuse more than this many messages. RabbitMQ 3.10 tells channels that a
// queue takes messages again where its limit is raised, and not where it is lifted: so it is
// raised first.
func (i *injection) limit(pattern string, most int) (lift func() error, err error) {
	set := func(most int) (func() error, error) { return i.policy(pattern, "max-length", most) }
	remove, err := set(most)
	return func() error {
		if _, err := set(1_000_000); err != nil {
			return err
		}
		return remove()
	}, err
}

// policy has a setting of queues be another one, until it is lifted.
func (i *injection) policy(pattern, setting string, value int) (lift func() error, err error) {
	path := "/api/policies/" + world.VHost + "/" + setting
	policy, err := json.Marshal(map[string]any{
		"pattern": pattern, "apply-to": "queues", "priority": 1, "definition": map[string]any{setting: value},
	})
	if err == nil {
		_, err = i.Manage(http.MethodPut, path, string(policy))
	}
	return func() error {
		_, err := i.Manage(http.MethodDelete, path, "")
		return err
	}, err
}

// fillTarget has the consumers stand still until their queue refuses what the
// tiers and lanes hand over. The limit is lifted only when the queue is empty
// again: RabbitMQ 3.10 does not tell dead-letter workers otherwise, and those of
// every tier would wait until the node is restarted.
func (i *injection) fillTarget() error {
	defer i.breaks("%s takes 5 messages, and nobody takes them out", shop.Queue)()
	lift, err := i.limit("^"+shop.Queue+"$", 5)
	if err != nil {
		return err
	}
	for n := range world.Consumers {
		err = errors.Join(err, i.Processes[world.ConsumerName(n)].Stop())
	}
	i.hold(2*time.Second, 5*time.Second)
	for n := range world.Consumers {
		err = errors.Join(err, i.Processes[world.ConsumerName(n)].Continue())
	}
	// Workers try again after ten seconds.
	i.hold(12*time.Second, 12*time.Second)
	if !i.until(putBackWithin, func() bool { q, err := i.inspect(shop.Queue); return err == nil && q.Messages == 0 }) {
		i.Surprise(shop.Queue + " is not emptied")
	}
	return errors.Join(err, lift())
}

// inspect asks the broker about a queue.
func (i *injection) inspect(name string) (q amqp.Queue, err error) {
	err = i.WithChannel(func(ch *amqp.Channel) error {
		q, err = ch.QueueDeclarePassive(name, true, false, false, false, nil)
		return err
	})
	return q, err
}

// closeConnections has the management API close some of our connections.
func (i *injection) closeConnections() error {
	answer, err := i.Manage(http.MethodGet, "/api/connections?columns=name", "")
	if err != nil {
		return err
	}
	var list []struct{ Name string }
	if err := json.Unmarshal(answer, &list); err != nil {
		return err
	}
	share := 1 + i.rng.IntN(4) // in four
	defer i.breaks("the management API closes connections, %d in 4", share)()
	for _, connection := range list {
		if i.rng.IntN(4) < share {
			_, _ = i.Manage(http.MethodDelete, "/api/connections/"+url.PathEscape(connection.Name), "") // it may be gone already
		}
	}
	return nil
}

// closeChannels has every channel of the clients end with an error, by an
// acknowledgement that makes no sense. Neither AMQP nor the management API can
// close another client's channel.
func (i *injection) closeChannels() error {
	defer i.breaks("the broker closes every channel")()
	const expression = `Channels = rabbit_channel:list_local(), ` +
		`Monitors = [monitor(process, Channel) || Channel <- Channels], ` +
		`[Channel ! {'$gen_cast', {method, {'basic.ack', 999999999999, false}, none, noflow}} || Channel <- Channels], ` +
		`length([M || M <- Monitors, receive {'DOWN', M, _, _, _} -> false after 20000 -> true end]).`
	for _, node := range i.Nodes {
		left, err := node.Control(i.ctx, "eval", expression)
		if err != nil {
			return err
		}
		if left = strings.TrimSpace(left); left != "0" {
			return fmt.Errorf("channels that are open still, although they were told to end: %s", left)
		}
	}
	return nil
}
