package rabbitmq

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers/lifecycle"
	"github.com/delaybridge/delaybridge/internal/servers/private"
)

// credentials of RabbitMQ's default user, who may do everything.
const (
	user     = "guest"
	password = "guest"
)

// A Config says how to start a node.
type Config struct {
	// Image is that of a container. Empty is a private node.
	Image string
	// TLS has a private node that stands alone take connections over TLS, too. Defaults to none.
	TLS *private.TLS
}

// A Node is a running RabbitMQ node with the management plugin.
//
// RabbitMQ (3.10, 4.0 and 4.3 alike) syncs its list of quorum queues only a
// second or so after a declaration. A queue younger than that is gone after a
// Kill, with its confirmed messages; a Restart in between makes it safe.
type Node struct {
	lifecycle.Server
	nodeName                 string
	amqpPort, managementPort int

	amqpTLSPort, managementTLSPort int // 0 without TLS
}

// NodeName is the node's name in the management API, such as rabbit@host.
func (r *Node) NodeName() string { return r.nodeName }

// AMQPURL is the address of the default virtual host, with credentials. It
// stays the same for the life of the server.
func (r *Node) AMQPURL() string {
	u := url.URL{
		Scheme: "amqp",
		User:   url.UserPassword(user, password),
		Host:   lifecycle.Loopback(r.amqpPort),
		Path:   "/",
	}
	return u.String()
}

// ManagementURL is the address of the management API and UI, with credentials
// and without a path.
func (r *Node) ManagementURL() string {
	u := url.URL{
		Scheme: "http",
		User:   url.UserPassword(user, password),
		Host:   lifecycle.Loopback(r.managementPort),
	}
	return u.String()
}

// TLSURLs are the addresses of the default virtual host and of the management API over [Config.TLS], without
// credentials.
func (r *Node) TLSURLs() (amqp, management string) {
	return fmt.Sprintf("amqps://localhost:%d/", r.amqpTLSPort), fmt.Sprintf("https://localhost:%d", r.managementTLSPort)
}

// Start starts a node of its own and returns when it answers. The caller owes it
// a Stop.
func Start(ctx context.Context, config Config) (*Node, error) {
	if config.Image != "" {
		return startContainer(ctx, config.Image)
	}
	return startPrivate(ctx, config.TLS)
}

// New makes the handle of a server that is not started yet.
func New(i lifecycle.Instance, nodeName string, amqpPort, managementPort int) *Node {
	r := &Node{nodeName: nodeName, amqpPort: amqpPort, managementPort: managementPort}
	r.Server = lifecycle.Server{Name: "RabbitMQ", Instance: i, Probe: r.answers}
	return r
}

// answers returns nil once both AMQP and the management API do their work.
func (r *Node) answers(ctx context.Context) error {
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
func (r *Node) ask(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, lifecycle.ProbeTimeout)
	defer cancel()
	return Manage(ctx, r.ManagementURL(), http.MethodGet, path, "")
}
