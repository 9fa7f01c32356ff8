package rabbitmq

import (
	"crypto/rand"
	"fmt"
	"strings"
)

// A membership is what makes a RabbitMQ node join others. The zero value is
// that of a node on its own.
type membership struct {
	nodes  []string // all nodes' names
	cookie string   // the secret that Erlang nodes share, for cookieFile
}

// cookieFile is where Erlang looks for the secret, in the home folder. Its owner
// alone may read it.
const cookieFile = ".erlang.cookie"

// membershipOf is the membership of all the nodes given.
func membershipOf(nodes []*Node) membership {
	m := membership{cookie: rand.Text()}
	for _, r := range nodes {
		m.nodes = append(m.nodes, r.nodeName)
	}
	return m
}

// settings are the lines for rabbitmq.conf.
func (m membership) settings() string {
	if m.nodes == nil {
		return ""
	}
	var lines strings.Builder
	lines.WriteString(`
cluster_formation.peer_discovery_backend = classic_config
# A node that was silent for long starts afresh, where Mnesia would stay split.
# pause_minority does not see it: when the node wakes up, the others are there.
cluster_partition_handling = autoheal
`)
	for i, name := range m.nodes {
		fmt.Fprintf(&lines, "cluster_formation.classic_config.nodes.%d = %s\n", i+1, name)
	}
	return lines.String()
}

// env is the environment that goes with the settings; args are for Erlang.
func (m membership) env(args ...string) []string {
	if m.nodes != nil {
		// A silent node counts as gone after 6 to 10 s, not after a minute.
		args = append(args, "-kernel net_ticktime 8")
	}
	if args == nil {
		return nil
	}
	return []string{"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=" + strings.Join(args, " ")}
}
