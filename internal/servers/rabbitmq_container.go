package servers

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// startRabbitMQContainer runs an image that takes its settings where the
// official one does.
func startRabbitMQContainer(ctx context.Context, image string) (*RabbitMQ, error) {
	r, b, err := newRabbitMQContainer(image)
	if err != nil {
		return nil, err
	}
	if err := b.configureRabbitMQ(membership{}); err != nil {
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
func (r *RabbitMQ) EnableProtocols(ctx context.Context) (stomp, mqtt int, err error) {
	b, ok := r.Instance.(*box)
	if !ok {
		return 0, 0, fmt.Errorf("STOMP and MQTT: not for a %T: set %s=%s", r.Instance, ChoiceVariable, Containers)
	}
	if out, err := exec.CommandContext(ctx, "docker", "exec", b.name, "rabbitmq-plugins", "enable", "rabbitmq_stomp", "rabbitmq_mqtt").CombinedOutput(); err != nil {
		return 0, 0, fmt.Errorf("rabbitmq-plugins enable: %w: %s", err, out)
	}
	return b.ports[stompPort].Number, b.ports[mqttPort].Number, nil
}

// newRabbitMQContainer prepares a container that is not configured yet.
func newRabbitMQContainer(image string) (*RabbitMQ, *box, error) {
	const amqp, management = "5672/tcp", "15672/tcp"
	b, err := newBox(box{name: "rabbitmq", image: image}, amqp, management, stompPort, mqttPort)
	if err != nil {
		return nil, nil, fmt.Errorf("prepare RabbitMQ: %w", err)
	}
	return newRabbitMQ(b, "rabbit@"+b.name, b.ports[amqp].Number, b.ports[management].Number), b, nil
}

// configureRabbitMQ puts settings where the image looks for them.
func (b *box) configureRabbitMQ(m membership) error {
	b.env = map[string]string{}
	for _, setting := range m.env() {
		name, value, _ := strings.Cut(setting, "=")
		b.env[name] = value
	}
	const dir, home = "/etc/rabbitmq/", "/var/lib/rabbitmq/"
	if m.cookie != "" {
		b.secrets = map[string]string{home + cookieFile: m.cookie}
	}
	return errors.Join(
		b.ship(dir+"rabbitmq.conf", "rabbitmq.conf", m.settings()),
		b.ship(dir+"advanced.config", "advanced.config", ""),
		b.ship(dir+"enabled_plugins", "enabled_plugins", ""),
	)
}
