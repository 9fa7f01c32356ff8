package fault

import (
	"errors"
	"net/http"
	"time"
)

func clusterScenarios() []scenario {
	needs := []string{rabbitMQ, rabbitMQNet}
	return []scenario{
		{"node down", needs, clustered, func(i *injection) error {
			n := i.rng.IntN(len(i.nodes))
			defer i.breaks("kill -9 node %d of the cluster", n)()
			if err := i.nodes[n].Kill(i.ctx); err != nil {
				return err
			}
			i.hold(0, time.Second)
			// What a load balancer does.
			err := i.move(n, (n+1)%len(i.nodes))
			i.hold(2*time.Second, 6*time.Second)
			return errors.Join(err, i.nodes[n].Restart(i.ctx), i.move(n, n))
		}},
		{"node stopped", needs, clustered, func(i *injection) error {
			n := i.rng.IntN(len(i.nodes))
			defer i.breaks("node %d of the cluster stands still", n)()
			err := i.nodes[n].Pause(i.ctx)
			i.hold(time.Second, 6*time.Second)
			return errors.Join(err, i.nodes[n].Resume(i.ctx))
		}},
		{"leaders move", needs, clustered, func(i *injection) error {
			defer i.breaks("the leaders of the queues move")()
			_, err := i.manage(http.MethodPost, "/api/rebalance/queues/", "")
			i.hold(time.Second, 2*time.Second)
			return err
		}},
	}
}

// move has the processes that are at home at one node talk to another one.
func (i *injection) move(home, to int) error {
	var errs []error
	for _, l := range i.network.to(rabbitMQ) {
		if i.homes[l.name] == home {
			errs = append(errs, l.lead(i.nodes[to].AMQPURL()))
		}
	}
	return errors.Join(errs...)
}
