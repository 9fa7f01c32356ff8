package sampler

import (
	"context"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/topology"
)

// connectWithin is how long it may take to connect before a look fails.
const connectWithin = time.Second

// line is a connection to RabbitMQ, which is made when it is needed.
type line struct {
	url string

	mu   sync.Mutex
	conn *broker.Conn
	stop context.CancelFunc
	over chan struct{} // closed when the connection is
}

// open returns where channels can be opened, and why that cannot be.
func (l *line) open(ctx context.Context) (topology.Channels, error) {
	conn, err := l.connect()
	if err != nil {
		return nil, err
	}
	first, err := conn.Channel(ctx)
	if err != nil {
		return nil, err
	}
	return &channels{ctx: ctx, conn: conn, first: first}, nil
}

// connect returns the connection that there is, unless it has given up.
func (l *line) connect() (*broker.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		select {
		case <-l.over:
		default:
			return l.conn, nil
		}
	}
	conn, err := broker.New(broker.Config{
		URL: l.url, Name: "delaybridge top", StartWithin: connectWithin, GiveUpAfter: connectWithin,
	})
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = conn.Run(running) // Channel returns the same error
	}()
	l.conn, l.stop, l.over = conn, stop, over
	return conn, nil
}

// close ends the connection.
func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		l.stop()
		<-l.over
		l.conn = nil
	}
}

// channels opens channels; one is open already.
type channels struct {
	ctx  context.Context //nolint:containedctx // the interface it implements has none
	conn *broker.Conn

	mu    sync.Mutex
	first *amqp.Channel
}

// Channel implements [topology.Channels].
func (c *channels) Channel() (*amqp.Channel, error) {
	c.mu.Lock()
	first := c.first
	c.first = nil
	c.mu.Unlock()
	if first != nil {
		return first, nil
	}
	return c.conn.Channel(c.ctx)
}
