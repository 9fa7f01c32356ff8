package servers

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers/lifecycle"
)

// credentials of RabbitMQ's default user, who may do everything.
const (
	rabbitMQUser     = "guest"
	rabbitMQPassword = "guest"
)

// RabbitMQ is a running RabbitMQ node with the management plugin.
type RabbitMQ struct {
	lifecycle.Server
	nodeName                 string
	amqpPort, managementPort int

	amqpTLSPort, managementTLSPort int // 0 without TLS
}

// NodeName is the node's name in the management API, such as rabbit@host.
func (r *RabbitMQ) NodeName() string { return r.nodeName }

// AMQPURL is the address of the default virtual host, with credentials. It
// stays the same for the life of the server.
func (r *RabbitMQ) AMQPURL() string {
	u := url.URL{
		Scheme: "amqp",
		User:   url.UserPassword(rabbitMQUser, rabbitMQPassword),
		Host:   lifecycle.Loopback(r.amqpPort),
		Path:   "/",
	}
	return u.String()
}

// ManagementURL is the address of the management API and UI, with credentials
// and without a path.
func (r *RabbitMQ) ManagementURL() string {
	u := url.URL{
		Scheme: "http",
		User:   url.UserPassword(rabbitMQUser, rabbitMQPassword),
		Host:   lifecycle.Loopback(r.managementPort),
	}
	return u.String()
}

// TLSURLs are the addresses of the default virtual host and of the management API over [Config.TLS], without
// credentials.
func (r *RabbitMQ) TLSURLs() (amqp, management string) {
	return fmt.Sprintf("amqps://localhost:%d/", r.amqpTLSPort), fmt.Sprintf("https://localhost:%d", r.managementTLSPort)
}

// StartRabbitMQ starts a node of its own and returns when it answers. The
// caller owes it a Stop.
func StartRabbitMQ(ctx context.Context, config Config) (*RabbitMQ, error) {
	config, err := config.settle(ctx)
	if err != nil {
		return nil, err
	}
	return config.startRabbitMQ(ctx)
}

// startRabbitMQ starts a node as a settled Config says.
func (c Config) startRabbitMQ(ctx context.Context) (*RabbitMQ, error) {
	if c.Choice == Containers {
		return startRabbitMQContainer(ctx, c.RabbitMQImage)
	}
	return startPrivateRabbitMQ(ctx, c.TLS)
}

// newRabbitMQ makes the handle of a server that is not started yet.
func newRabbitMQ(i lifecycle.Instance, nodeName string, amqpPort, managementPort int) *RabbitMQ {
	r := &RabbitMQ{nodeName: nodeName, amqpPort: amqpPort, managementPort: managementPort}
	r.Server = lifecycle.Server{Name: "RabbitMQ", Instance: i, Probe: r.answers}
	return r
}

// answers returns nil once both AMQP and the management API do their work.
func (r *RabbitMQ) answers(ctx context.Context) error {
	conn, err := amqp.DialConfig(r.AMQPURL(), amqp.Config{Dial: lifecycle.Dialer(ctx)})
	if err != nil {
		return err
	}
	if err := conn.Close(); err != nil {
		return err
	}
	_, err = r.ask(ctx, "/api/overview")
	return err
}

// ask reads from the management API.
func (r *RabbitMQ) ask(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, lifecycle.ProbeTimeout)
	defer cancel()
	return Manage(ctx, r.ManagementURL(), http.MethodGet, path, "")
}
