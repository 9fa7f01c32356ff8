// Package broker keeps one supervised connection to RabbitMQ and publishes over
// it in order and confirmed.
//
// amqp091-go can recover connections by itself, but skips entities that fail to
// redeclare and gives up after five attempts; here every reconnection is an
// explicit step, and those who use a channel open a new one.
package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/secretfile"
	"github.com/delaybridge/delaybridge/internal/tlsurl"
)

// Config of a [Conn].
type Config struct {
	// URL is an AMQP URI: amqp:// or amqps://user:password@host:port/vhost. Several hosts of a
	// cluster, host:port,host:port, are tried in random order. Or file:///path: the file has the
	// URL, and is read anew for every connection.
	URL string
	// TLS is what a URL of amqps:// has its parameters added to. Defaults to TLS 1.2 and the
	// system's authorities.
	TLS *tls.Config
	// Name is shown as the connection's name in the management UI.
	Name string
	// About says there what the connection is for.
	About string
	// Properties are shown beside it, such as the ID of a bridge.
	Properties map[string]string
	// GiveUpAfter ends Run with ErrUnreachable when there was no connection
	// for so long. Defaults to never.
	GiveUpAfter time.Duration
	// StartWithin ends Run with ErrUnreachable when the first connection takes
	// longer. Defaults to never.
	StartWithin time.Duration
	// Connected is called after each connection that was made; it must not
	// block. Defaults to nothing.
	Connected func()
	// Logger defaults to none.
	Logger *slog.Logger
}

const (
	dialTimeout = 10 * time.Second
	// leastDialTimeout is what a busy broker needs for the handshake, even where patience ends.
	leastDialTimeout = 5 * time.Second
	// openWithin is how long the broker may take to open a channel. It opens none on a
	// connection that it has stopped to read.
	openWithin = 15 * time.Second
	heartbeat  = 10 * time.Second
	minBackoff = 50 * time.Millisecond
	maxBackoff = 5 * time.Second
	// steady is how long a connection must last before the backoff begins anew.
	steady = time.Second
)

// Conn is a connection that comes back by itself while Run runs.
type Conn struct {
	config Config

	mu      sync.Mutex
	changed chan struct{} // closed and replaced whenever a field below changes
	conn    *amqp.Connection
	hangUp  func() error // ends conn without a word to the broker
	blocked bool
	reason  string // why blocked, as the broker says
	ended   error  // why Run has ended
	made    int    // connections
	since   time.Time
}

// New checks the configuration. It does no I/O, but to read files that hold the URL
// or certificates.
func New(c Config) (*Conn, error) {
	rawURL, err := c.url()
	if err != nil {
		return nil, err
	}
	if err := c.checkTLS(rawURL); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrConfiguration, Redact(c.URL), err)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Connected == nil {
		c.Connected = func() {}
	}
	return &Conn{config: c, changed: make(chan struct{}), since: time.Now()}, nil
}

// url returns the URL to connect to, which may be in a file.
func (c Config) url() (string, error) {
	rawURL, err := secretfile.Resolve(c.URL)
	if err == nil {
		_, err = ParseURI(rawURL)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %s: %w; want amqp://user:password@host:5672/vhost", ErrConfiguration, Redact(c.URL), err)
	}
	return rawURL, nil
}

// checkTLS reads the files that a URL names, so that a wrong file is reported before any connection is made.
func (c Config) checkTLS(rawURL string) error {
	u, err := url.Parse(Hosts(rawURL)[0]) // all hosts have the same query
	switch {
	case err != nil:
		return errUnparsable
	case u.Scheme != "amqps":
		return nil
	}
	settings, err := tlsurl.Config(u.Query(), c.TLS)
	if err == nil && isExternal(u.Query()["auth_mechanism"]) && len(settings.Certificates) == 0 && settings.GetClientCertificate == nil {
		err = errNoCertificate
	}
	return err
}

// Run connects, and connects again with backoff whenever the connection is
// lost, until ctx ends; then it closes the connection and returns nil. It
// returns an error only where the first connection cannot be made (ErrConfiguration),
// or where trying has not helped for Config.GiveUpAfter or StartWithin
// (ErrUnreachable). What was right once, such as a virtual host that was deleted, a
// person may put back.
func (c *Conn) Run(ctx context.Context) error {
	err := c.supervise(ctx)
	ended := err
	if ended == nil {
		ended = amqp.ErrClosed
	}
	c.update(func() { c.conn, c.ended = nil, ended })
	return err
}

// Start runs the connection beside its caller, for as long as a command or a check takes: Channel returns the error
// that Run would. The function it returns ends that, and waits until the connection is closed, for within at most,
// since a queue that does not answer keeps a channel open.
func (c *Conn) Start(ctx context.Context, within time.Duration) (stop func()) {
	running, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Run(running)
	}()
	return func() {
		end()
		select {
		case <-ended:
		case <-time.After(within):
		}
	}
}

func (c *Conn) supervise(ctx context.Context) error {
	log := c.config.Logger.With("connection", c.config.Name, "url", Redact(c.config.URL))
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = minBackoff, maxBackoff
	lost, patience, connected := time.Now(), c.config.GiveUpAfter, false
	if c.config.StartWithin > 0 {
		patience = c.config.StartWithin
	}
	said := ""
	for ctx.Err() == nil {
		conn, hangUp, err := c.dial(ctx, dialWithin(endOf(lost, patience)))
		if err == nil {
			connected, said = true, ""
			log.Info("connected to RabbitMQ", "address", conn.RemoteAddr())
			began := time.Now()
			err = c.serve(ctx, conn, hangUp)
			lost, patience = time.Now(), c.config.GiveUpAfter
			if lost.Sub(began) > steady { // otherwise a broker that closes each connection at once would be dialled without a pause
				wait.Reset()
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrConfiguration) && !connected:
			return err
		case patience > 0 && time.Since(lost) >= patience:
			return fmt.Errorf("%w at %s for %v: %w; is it running, and is the address right?", ErrUnreachable, Redact(c.config.URL), patience, err)
		}
		pause := wait.NextBackOff()
		if end := endOf(lost, patience); !end.IsZero() {
			pause = min(pause, time.Until(end))
		}
		if text := err.Error(); text != said { // an outage of hours is one line
			said = text
			log.Warn("no connection to RabbitMQ; it is tried again until there is one", "error", err, "retry_in", pause)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

// endOf is when patience ends, or zero where it has no end.
func endOf(lost time.Time, patience time.Duration) time.Time {
	if patience <= 0 {
		return time.Time{}
	}
	return lost.Add(patience)
}

// blockedGrace is how long a broker that has blocked publishers may take to close a connection.
// Mostly it reads nothing from it, and so does not answer: its heartbeats would prolong the
// library's deadline.
const blockedGrace = time.Second

// serve publishes conn to the waiting and returns when it has ended.
func (c *Conn) serve(ctx context.Context, conn *amqp.Connection, hangUp func() error) error {
	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	blocked := conn.NotifyBlocked(make(chan amqp.Blocking, 1))
	c.update(func() { c.conn, c.hangUp, c.blocked, c.made = conn, hangUp, false, c.made+1 })
	defer c.update(func() { c.conn, c.hangUp, c.blocked = nil, nil, false })
	c.config.Connected()
	for {
		select {
		case <-ctx.Done():
			if c.Blocked() != nil {
				defer time.AfterFunc(blockedGrace, func() { _ = hangUp() }).Stop()
			}
			_ = conn.CloseDeadline(time.Now().Add(dialTimeout))
			return nil
		case reason, ok := <-closed:
			if !ok || reason == nil {
				return amqp.ErrClosed
			}
			return reason
		case b, ok := <-blocked:
			if !ok {
				blocked = nil
				continue
			}
			c.config.Logger.Warn("RabbitMQ's flow control changed", "connection", c.config.Name, "blocked", b.Active, "reason", b.Reason)
			c.update(func() { c.blocked, c.reason = b.Active, b.Reason })
		}
	}
}

func (c *Conn) update(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	c.since = time.Now()
	close(c.changed)
	c.changed = make(chan struct{})
}

// Channel opens a channel, waiting for a connection as long as ctx allows.
func (c *Conn) Channel(ctx context.Context) (*amqp.Channel, error) {
	for {
		conn, err := c.await(ctx, func() bool { return c.conn != nil })
		if err != nil {
			return nil, err
		}
		ch, err := c.open(conn)
		if err == nil {
			return ch, nil
		}
		if errors.Is(err, amqp.ErrChannelMax) {
			return nil, fmt.Errorf("broker: open a channel: %w", err)
		}
		// The connection ended under us; Run is about to notice.
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("broker: open a channel: %w: %w", err, ctx.Err())
		case <-time.After(minBackoff):
		}
	}
}

// open opens a channel, and replaces the connection where the broker does not do so within
// openWithin: it has stopped to read from it, and not to block publishers.
func (c *Conn) open(conn *amqp.Connection) (*amqp.Channel, error) {
	opened := make(chan struct{})
	defer close(opened)
	go func() {
		for {
			select {
			case <-opened:
				return
			case <-time.After(openWithin):
			}
			c.mu.Lock()
			replace := c.conn == conn && !c.blocked
			hangUp := c.hangUp
			c.mu.Unlock()
			if replace {
				c.config.Logger.Warn("RabbitMQ does not open a channel: the connection is replaced", "connection", c.config.Name, "waited", openWithin)
				_ = hangUp()
				return
			}
		}
	}()
	return conn.Channel()
}

// probe finds out whether the broker still reads from the connection, unless it has blocked
// publishers: then it does not.
func (c *Conn) probe() {
	c.mu.Lock()
	conn, usable := c.conn, c.usable()
	c.mu.Unlock()
	if !usable {
		return
	}
	if ch, err := c.open(conn); err == nil {
		_ = ch.Close()
	}
}

// Server returns what the broker calls its cluster, and the virtual host. It waits for a
// connection as long as ctx allows.
func (c *Conn) Server(ctx context.Context) (cluster, vhost string, err error) {
	conn, err := c.await(ctx, func() bool { return c.conn != nil })
	if err != nil {
		return "", "", err
	}
	cluster, _ = conn.Properties["cluster_name"].(string)
	return cluster, conn.Config.Vhost, nil
}

// Ready waits until there is a connection that the broker has not blocked.
func (c *Conn) Ready(ctx context.Context) error {
	_, err := c.await(ctx, c.usable)
	return err
}

// IsReady reports whether Ready need not wait.
func (c *Conn) IsReady() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.usable()
}

// Blocked says that the broker has blocked publishers, and why, or nil. It then answers for
// nothing that is published, either.
func (c *Conn) Blocked() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.blockade()
}

func (c *Conn) blockade() error {
	switch {
	case !c.blocked:
		return nil
	case c.reason == "":
		return ErrBlocked
	}
	return fmt.Errorf("%w: %s", ErrBlocked, c.reason)
}

// ErrBlocked means that the broker takes nothing from publishers for now.
var ErrBlocked = errors.New("the broker has blocked publishers, for lack of memory or disk (connection.blocked)")

func (c *Conn) usable() bool { return c.conn != nil && !c.blocked }

func (c *Conn) await(ctx context.Context, ready func() bool) (*amqp.Connection, error) {
	for {
		c.mu.Lock()
		conn, changed, ended, blocked, ok := c.conn, c.changed, c.ended, c.blockade(), ready()
		c.mu.Unlock()
		switch {
		case ok:
			return conn, nil
		case ended != nil:
			return nil, ended
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if blocked != nil {
				return nil, fmt.Errorf("%w: %w", blocked, context.Cause(ctx))
			}
			return nil, fmt.Errorf("waiting for RabbitMQ at %s: %w", Redact(c.config.URL), context.Cause(ctx))
		}
	}
}
