package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// rabbitMQDirs is where distributions keep the server's own start script. The
// script in PATH is often a wrapper that changes user and folder and sends the
// log elsewhere.
const rabbitMQDirs = "/usr/lib/rabbitmq"

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

// startPrivateRabbitMQ runs the distribution's rabbitmq-server.
func startPrivateRabbitMQ(ctx context.Context) (*RabbitMQ, error) {
	program, err := findRabbitMQ()
	if err != nil {
		return nil, err
	}
	n, err := newNode("rabbitmq", "rabbitmq", 4)
	if err != nil {
		return nil, fmt.Errorf("prepare RabbitMQ: %w", err)
	}
	amqpPort, managementPort := n.ports[0].number, n.ports[1].number
	n.program = []string{"/bin/sh", "-c", withEpmd, "epmd", program}
	if n.env, err = rabbitMQEnv(n, n.ports[2].number, n.ports[3].number); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare RabbitMQ: %w", err), n.discard(ctx))
	}
	r := newRabbitMQ(n, amqpPort, managementPort)
	if err := r.startOrDiscard(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// findRabbitMQ returns the path of the server's start script.
func findRabbitMQ() (string, error) {
	own := filepath.Join(rabbitMQDirs, "bin", "rabbitmq-server")
	if _, err := os.Stat(own); err == nil {
		return own, nil
	}
	return exec.LookPath("rabbitmq-server")
}

// rabbitMQEnv writes the node's settings and returns the environment that makes
// it read them and nothing of the system's own RabbitMQ.
func rabbitMQEnv(n *node, distribution, epmd int) ([]string, error) {
	listeners := fmt.Sprintf(`
listeners.tcp.private = 127.0.0.1:%d
management.tcp.ip = 127.0.0.1
management.tcp.port = %d
`, n.ports[0].number, n.ports[1].number)
	var errs []error
	file := func(name, more string) string {
		path, err := n.write(name, more)
		errs = append(errs, err)
		return path
	}
	dir := func(name string) string { return filepath.Join(n.dir, name) }
	env := []string{
		fmt.Sprintf("RABBITMQ_NODENAME=delaybridge-%d@localhost", n.ports[0].number),
		"RABBITMQ_CONFIG_FILE=" + file("rabbitmq.conf", listeners),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + file("advanced.config", ""),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + file("enabled_plugins", ""),
		"RABBITMQ_CONF_ENV_FILE=" + file("rabbitmq-env.conf", ""),
		"RABBITMQ_MNESIA_BASE=" + dir("data"),
		"RABBITMQ_LOG_BASE=" + dir("logs"),
		"RABBITMQ_PID_FILE=" + dir("pid"),
		fmt.Sprintf("RABBITMQ_DIST_PORT=%d", distribution),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
		fmt.Sprintf("ERL_EPMD_PORT=%d", epmd),
		"ERL_EPMD_ADDRESS=127.0.0.1",
	}
	// Debian's packages of 4.0 and later do not find their plugins by themselves.
	if plugins, _ := filepath.Glob(filepath.Join(rabbitMQDirs, "lib", "rabbitmq_server-*", "plugins")); len(plugins) == 1 {
		env = append(env, "RABBITMQ_PLUGINS_DIR="+plugins[0])
	}
	return env, errors.Join(errs...)
}
