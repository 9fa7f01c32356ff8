package fault

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"
)

func rabbitMQScenarios() []scenario {
	needs := []string{rabbitMQ}
	return []scenario{
		{"rabbitmq killed", needs, single, func(i *injection) error {
			defer i.breaks("kill -9 RabbitMQ")()
			err := i.nodes[0].Kill(i.ctx)
			i.hold(0, 2*time.Second)
			return errors.Join(err, i.nodes[0].Restart(i.ctx))
		}},
		{"rabbitmq restarted", needs, single, func(i *injection) error {
			defer i.breaks("RabbitMQ restarts")()
			return i.nodes[0].Restart(i.ctx)
		}},
		{"rabbitmq stopped", needs, single, func(i *injection) error {
			defer i.breaks("RabbitMQ stands still")()
			err := i.nodes[0].Pause(i.ctx)
			i.hold(500*time.Millisecond, 6*time.Second)
			return errors.Join(err, i.nodes[0].Resume(i.ctx))
		}},
		{"connections closed", needs, anywhere, (*injection).closeConnections},
		{"channels closed", needs, anywhere, (*injection).closeChannels},
		{"memory alarm", needs, anywhere, func(i *injection) error {
			defer i.breaks("RabbitMQ is short of memory (connection.blocked)")()
			node := i.nodes[i.rng.IntN(len(i.nodes))]
			_, err := node.Control(i.ctx, "set_vm_memory_high_watermark", "0.000001")
			i.hold(time.Second, 4*time.Second)
			_, mend := node.Control(i.ctx, "set_vm_memory_high_watermark", "0.4")
			return errors.Join(err, mend)
		}},
		{"tiers and lanes refuse", needs, anywhere, func(i *injection) error {
			return i.refuse("^"+prefix+`\.(tier|lane)\.`, 0)
		}},
		{"inbox refuses", needs, anywhere, func(i *injection) error {
			return i.refuse("^"+prefix+`\.inbox$`, 0)
		}},
		{"target refuses", append(allConsumers(), rabbitMQ), anywhere, func(i *injection) error {
			// Only what nobody takes out fills the queue.
			for n := range consumers {
				p := i.processes[consumerName(n)]
				if err := p.stop(); err != nil {
					return err
				}
				defer func() { _ = p.cont() }()
			}
			return i.refuse("^"+queue+"$", 0)
		}},
	}
}

// refuse has queues reject what is published, for a while.
func (i *injection) refuse(pattern string, most int) error {
	defer i.breaks("queues %s refuse", pattern)()
	path := "/api/policies/" + vhost + "/refuse"
	policy, err := json.Marshal(map[string]any{
		"pattern": pattern, "apply-to": "queues", "priority": 1, "definition": map[string]any{"max-length": most},
	})
	if err != nil {
		return err
	}
	_, err = i.manage(http.MethodPut, path, string(policy))
	i.hold(time.Second, 4*time.Second)
	_, mend := i.manage(http.MethodDelete, path, "")
	return errors.Join(err, mend)
}

// closeConnections has the management API close some of our connections.
func (i *injection) closeConnections() error {
	answer, err := i.manage(http.MethodGet, "/api/connections?columns=name", "")
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
			_, _ = i.manage(http.MethodDelete, "/api/connections/"+url.PathEscape(connection.Name), "") // it may be gone already
		}
	}
	return nil
}

// closeChannels has every channel of the clients end with an error, by an
// acknowledgement that makes no sense. Neither AMQP nor the management API can
// close another client's channel.
func (i *injection) closeChannels() error {
	defer i.breaks("the broker closes every channel")()
	const expression = `[Channel ! {'$gen_cast', {method, {'basic.ack', 999999999999, false}, none, noflow}} ` +
		`|| Channel <- rabbit_channel:list_local()].`
	for _, node := range i.nodes {
		if _, err := node.Control(i.ctx, "eval", expression); err != nil {
			return err
		}
	}
	return nil
}
