package scenarios

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/world"
	"github.com/delaybridge/delaybridge/internal/servers/rabbitmq"
)

func clusterScenarios() []Scenario {
	needs := []string{rabbitMQ, rabbitMQNet}
	return []Scenario{
		{"node down", needs, Clustered, func(i *injection) error {
			n := i.rng.IntN(len(i.Nodes))
			defer i.breaks("kill -9 node %d of the cluster", n)()
			if err := i.Nodes[n].Kill(i.ctx); err != nil {
				return err
			}
			i.hold(0, time.Second)
			// What a load balancer does.
			err := i.MoveClients(n, (n+1)%len(i.Nodes))
			i.hold(2*time.Second, 6*time.Second)
			return errors.Join(err, i.Nodes[n].Restart(i.ctx), i.MoveClients(n, n))
		}},
		{"node stopped", needs, Clustered, func(i *injection) error {
			n := i.rng.IntN(len(i.Nodes))
			defer i.breaks("node %d of the cluster stands still", n)()
			err := i.Nodes[n].Pause(i.ctx)
			i.hold(time.Second, 6*time.Second)
			return errors.Join(err, i.Nodes[n].Resume(i.ctx))
		}},
		{partedScenario, needs, Clustered, (*injection).partCluster},
		{"node replaced", needs, Clustered, (*injection).replaceNode},
		{"leaders move", needs, Clustered, func(i *injection) error {
			defer i.breaks("the leaders of the queues move")()
			_, err := i.Manage(http.MethodPost, "/api/rebalance/queues/", "")
			i.hold(time.Second, 2*time.Second)
			return err
		}},
	}
}

// replaceNode has a node lose all that it has, and join the cluster anew, as another machine
// would that takes its place.
func (i *injection) replaceNode() error {
	n := i.rng.IntN(len(i.Nodes))
	lost, left := i.Nodes[n], i.Nodes[(n+1)%len(i.Nodes)]
	defer i.breaks("node %d of the cluster is emptied, and joins anew", n)()
	if err := i.MoveClients(n, (n+1)%len(i.Nodes)); err != nil {
		return err
	}
	for _, step := range []struct {
		node    *rabbitmq.Node
		command []string
	}{
		{lost, []string{"stop_app"}},
		{left, []string{"forget_cluster_node", lost.NodeName()}},
		{lost, []string{"force_reset"}},
		{lost, []string{"join_cluster", left.NodeName()}},
		{lost, []string{"start_app"}},
		{left, []string{"eval", fmt.Sprintf("rabbit_quorum_queue:grow('%s', <<\".*\">>, <<\".*\">>, all).", lost.NodeName())}},
	} {
		_, err := step.node.Control(i.ctx, step.command...)
		if err != nil && strings.Contains(err.Error(), "Khepri") { // which knows no reset by force
			_, err = step.node.Control(i.ctx, "reset")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", step.command[0], err)
		}
	}
	return i.MoveClients(n, n)
}

const partedScenario = "cluster parted"

// losesWhenParted are the releases of RabbitMQ whose quorum queues may lose what they have confirmed, and may
// stand still for good, when nodes are parted: their logs diverge (Ra before 2.15.3, rabbitmq-server pull
// requests 13326 and 13530, release notes of 4.0.8).
var losesWhenParted = regexp.MustCompile(`"4\.0\.[0-7]"`)

// Withheld returns which scenario the broker of a world cannot bear, if there is one, and why.
func Withheld(ctx context.Context, w *world.World) (scenario, why string, err error) {
	if w.Cluster == nil {
		return "", "", nil
	}
	version, err := w.Nodes[0].Control(ctx, "eval", "application:get_key(rabbit, vsn).")
	if found := losesWhenParted.FindString(version); err == nil && found != "" {
		return partedScenario, "RabbitMQ " + strings.Trim(found, `"`) + " loses confirmed messages then; 4.0.8 does not", nil
	}
	return "", "", err
}

// partCluster parts one node of the cluster from the others, which each of them handles in one
// of the ways that RabbitMQ has for it. The node refuses their cookies, so that they do not
// come together again.
func (i *injection) partCluster() error {
	handling, alone := []string{"autoheal", "pause_minority"}[i.rng.IntN(2)], i.rng.IntN(len(i.Nodes))
	var others []string
	for n, node := range i.Nodes {
		if _, err := node.Control(i.ctx, "eval", "application:set_env(rabbit, cluster_partition_handling, "+handling+")."); err != nil {
			return err
		}
		if n != alone {
			others = append(others, "'"+node.NodeName()+"'")
		}
	}
	each := func(expression string) error {
		_, err := i.Nodes[alone].Control(i.ctx, "eval", fmt.Sprintf("[begin %s end || N <- [%s]].", expression, strings.Join(others, ", ")))
		return err
	}
	defer i.breaks("node %d of the cluster is parted from the others (%s)", alone, handling)()
	err := each("erlang:set_cookie(N, parted), erlang:disconnect_node(N)")
	i.hold(time.Second, 20*time.Second)
	if err := errors.Join(err, each("erlang:set_cookie(N, erlang:get_cookie())")); err != nil {
		return err
	}
	together, cancel := context.WithTimeout(i.ctx, togetherWithin)
	defer cancel()
	if err := i.Cluster.AwaitWhole(together); err != nil {
		i.Surprise(fmt.Sprintf("the nodes have not come together again within %v: %v", togetherWithin, err))
	}
	return i.ctx.Err()
}

// togetherWithin is how long a cluster may take to be whole again.
const togetherWithin = 2 * time.Minute
