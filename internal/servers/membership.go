package servers

import (
	"crypto/rand"
	"fmt"
	"strings"
)

// A membership is what makes a RabbitMQ node join others. The zero value is
// that of a node on its own.
type membership struct {
	nodes  []string // all nodes' names
	cookie string   // the secret that Erlang nodes share
}

// membershipOf is the membership of all the nodes given.
func membershipOf(nodes []*RabbitMQ) membership {
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
# A node that was away for long starts afresh, where Mnesia would stay split.
cluster_partition_handling = pause_minority
`)
	for i, name := range m.nodes {
		fmt.Fprintf(&lines, "cluster_formation.classic_config.nodes.%d = %s\n", i+1, name)
	}
	return lines.String()
}

// env is the environment that goes with the settings; args are for Erlang.
func (m membership) env(args ...string) []string {
	var env []string
	if m.nodes != nil {
		env = append(env, "RABBITMQ_ERLANG_COOKIE="+m.cookie)
		// A silent node counts as gone after 6 to 10 s, not after a minute.
		args = append(args, "-kernel net_ticktime 8")
	}
	if args != nil {
		env = append(env, "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="+strings.Join(args, " "))
	}
	return env
}
