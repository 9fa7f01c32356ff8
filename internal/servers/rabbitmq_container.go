package servers

import (
	"context"
	"errors"
	"fmt"
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
		return nil, errors.Join(err, b.discard(ctx))
	}
	if err := r.startOrDiscard(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// newRabbitMQContainer prepares a container that is not configured yet.
func newRabbitMQContainer(image string) (*RabbitMQ, *box, error) {
	const amqp, management = "5672/tcp", "15672/tcp"
	b, err := newBox(box{name: "rabbitmq", image: image}, amqp, management)
	if err != nil {
		return nil, nil, fmt.Errorf("prepare RabbitMQ: %w", err)
	}
	return newRabbitMQ(b, "rabbit@"+b.name, b.ports[amqp].number, b.ports[management].number), b, nil
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
