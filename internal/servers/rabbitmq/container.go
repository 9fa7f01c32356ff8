package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/delaybridge/delaybridge/internal/servers/containers"
)

// startContainer runs an image that takes its settings where the
// official one does.
func startContainer(ctx context.Context, image string) (*Node, error) {
	r, b, err := newContainer(image)
	if err != nil {
		return nil, err
	}
	if err := configureContainer(b, membership{}); err != nil {
		return nil, errors.Join(err, b.Discard(ctx))
	}
	if err := r.StartOrDiscard(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// Where the plugins of other protocols listen, in the container.
const stompPort, mqttPort = "61613/tcp", "1883/tcp"

// EnableProtocols has the server speak STOMP and MQTT, too, and returns their ports on the loopback interface. It takes
// a container.
func (r *Node) EnableProtocols(ctx context.Context) (stomp, mqtt int, err error) {
	b, ok := r.Instance.(*containers.Container)
	if !ok {
		return 0, 0, fmt.Errorf("STOMP and MQTT: not for a %T: set DELAYBRIDGE_SERVERS=containers", r.Instance)
	}
	if out, err := exec.CommandContext(ctx, "docker", "exec", b.Name, "rabbitmq-plugins", "enable", "rabbitmq_stomp", "rabbitmq_mqtt").CombinedOutput(); err != nil {
		return 0, 0, fmt.Errorf("rabbitmq-plugins enable: %w: %s", err, out)
	}
	return b.Ports[stompPort].Number, b.Ports[mqttPort].Number, nil
}

// newContainer prepares a container that is not configured yet.
func newContainer(image string) (*Node, *containers.Container, error) {
	const amqp, management = "5672/tcp", "15672/tcp"
	b, err := containers.New(containers.Container{Name: "rabbitmq", Image: image}, amqp, management, stompPort, mqttPort)
	if err != nil {
		return nil, nil, fmt.Errorf("prepare RabbitMQ: %w", err)
	}
	return New(b, "rabbit@"+b.Name, b.Ports[amqp].Number, b.Ports[management].Number), b, nil
}

// configureContainer puts settings where the image looks for them.
func configureContainer(b *containers.Container, m membership) error {
	b.Env = map[string]string{}
	for _, setting := range m.env() {
		name, value, _ := strings.Cut(setting, "=")
		b.Env[name] = value
	}
	const dir, home = "/etc/rabbitmq/", "/var/lib/rabbitmq/"
	if m.cookie != "" {
		b.Secrets = map[string]string{home + cookieFile: m.cookie}
	}
	return errors.Join(
		b.Ship(dir+"rabbitmq.conf", "rabbitmq.conf", m.settings()),
		b.Ship(dir+"advanced.config", "advanced.config", ""),
		b.Ship(dir+"enabled_plugins", "enabled_plugins", ""),
	)
}
