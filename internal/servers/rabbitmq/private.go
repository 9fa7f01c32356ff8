package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/delaybridge/delaybridge/internal/servers/lifecycle"
	"github.com/delaybridge/delaybridge/internal/servers/private"
)

// programDirs is where distributions keep the server's own start script. The
// script in PATH is often a wrapper that changes user and folder and sends the
// log elsewhere.
const programDirs = "/usr/lib/rabbitmq"

// withEpmd starts the Erlang port mapper in the server's process group before
// the server. Left to itself RabbitMQ would start one as a daemon, which
// outlives it.
const withEpmd = `
epmd -port "$ERL_EPMD_PORT" -address 127.0.0.1 &
tries=0
until epmd -port "$ERL_EPMD_PORT" -names >/dev/null 2>&1 || [ "$tries" -ge 100 ]; do
	tries=$((tries + 1))
	sleep 0.05
done
exec "$@"
`

// Ports of a private RabbitMQ node.
const (
	amqpPort = iota
	managementPort
	distributionPort
	portsInAll
)

// startPrivate runs the distribution's rabbitmq-server.
func startPrivate(ctx context.Context, t *private.TLS) (*Node, error) {
	r, n, err := newPrivate()
	if err != nil {
		return nil, err
	}
	mapper, err := lifecycle.ReservePort()
	if err != nil {
		return nil, errors.Join(err, n.Discard(ctx))
	}
	n.Ports = append(n.Ports, mapper)
	n.Program = append([]string{"/bin/sh", "-c", withEpmd, "epmd"}, n.Program...)
	err = configurePrivate(r, n, mapper.Number, membership{})
	if err == nil && t != nil {
		err = r.overTLS(n, t)
	}
	if err != nil {
		return nil, errors.Join(err, n.Discard(ctx))
	}
	if err := r.StartOrDiscard(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// newPrivate prepares a node that is not configured yet.
func newPrivate() (*Node, *private.Node, error) {
	program, err := findProgram()
	if err != nil {
		return nil, nil, err
	}
	n, err := private.New("rabbitmq", "rabbitmq", portsInAll)
	if err != nil {
		return nil, nil, fmt.Errorf("prepare RabbitMQ: %w", err)
	}
	n.Program = []string{program}
	name := fmt.Sprintf("delaybridge-%d@localhost", n.Ports[amqpPort].Number)
	return New(n, name, n.Ports[amqpPort].Number, n.Ports[managementPort].Number), n, nil
}

// MissingPackages names the Debian packages whose programs private nodes take, and
// that are not here.
func MissingPackages() []string {
	_, server := findProgram()
	_, epmd := exec.LookPath("epmd")
	if server != nil || epmd != nil {
		return []string{"rabbitmq-server"}
	}
	return nil
}

// findProgram returns the path of the server's start script.
func findProgram() (string, error) {
	own := filepath.Join(programDirs, "bin", "rabbitmq-server")
	if _, err := os.Stat(own); err == nil {
		return own, nil
	}
	return exec.LookPath("rabbitmq-server")
}

// configurePrivate writes the node's settings, and the environment that makes
// it read them and nothing of the system's own RabbitMQ.
func configurePrivate(r *Node, n *private.Node, mapper int, m membership) error {
	listeners := fmt.Sprintf(`
listeners.tcp.private = 127.0.0.1:%d
management.tcp.ip = 127.0.0.1
management.tcp.port = %d
`, r.amqpPort, r.managementPort)
	var errs []error
	file := func(name, more string) string {
		path, err := n.Write(name, more)
		errs = append(errs, err)
		return path
	}
	dir := func(name string) string { return filepath.Join(n.Dir, name) }
	n.Env = append(m.env("-kernel inet_dist_use_interface {127,0,0,1}"),
		"RABBITMQ_NODENAME="+r.nodeName,
		"RABBITMQ_CONFIG_FILE="+file("rabbitmq.conf", listeners+m.settings()),
		"RABBITMQ_ADVANCED_CONFIG_FILE="+file("advanced.config", ""),
		"RABBITMQ_ENABLED_PLUGINS_FILE="+file("enabled_plugins", ""),
		"RABBITMQ_CONF_ENV_FILE="+file("rabbitmq-env.conf", ""),
		"RABBITMQ_MNESIA_BASE="+dir("data"),
		"RABBITMQ_LOG_BASE="+dir("logs"),
		"RABBITMQ_PID_FILE="+dir("pid"),
		fmt.Sprintf("RABBITMQ_DIST_PORT=%d", n.Ports[distributionPort].Number),
		fmt.Sprintf("ERL_EPMD_PORT=%d", mapper),
		"ERL_EPMD_ADDRESS=127.0.0.1",
	)
	if m.cookie != "" {
		file(cookieFile, m.cookie)
	}
	// Debian's packages of 4.0 and later do not find their plugins by themselves.
	if plugins, _ := filepath.Glob(filepath.Join(programDirs, "lib", "rabbitmq_server-*", "plugins")); len(plugins) == 1 {
		n.Env = append(n.Env, "RABBITMQ_PLUGINS_DIR="+plugins[0])
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("prepare RabbitMQ: %w", err)
	}
	return nil
}
