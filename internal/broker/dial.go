package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/tlsurl"
)

// dialWithin is how long a host may take to connect, where patience ends at an instant. Zero is
// never.
func dialWithin(end time.Time) time.Duration {
	if end.IsZero() {
		return dialTimeout
	}
	return min(dialTimeout, max(leastDialTimeout, time.Until(end)))
}

// dial tries the hosts in random order, so that the connections of many processes spread over
// the nodes. It also returns what ends the connection without a word to the broker.
func (c *Conn) dial(ctx context.Context, within time.Duration) (*amqp.Connection, func() error, error) {
	rawURL, err := c.config.url()
	if err != nil {
		return nil, nil, err
	}
	hosts := Hosts(rawURL)
	var failed error
	for _, i := range rand.Perm(len(hosts)) { //nolint:gosec // it keeps no secret
		conn, hangUp, err := c.dialHost(ctx, within, hosts[i])
		switch {
		case err == nil:
			return conn, hangUp, nil
		case failed == nil:
			failed = err
		default:
			failed = fmt.Errorf("%w; %w", failed, err)
		}
	}
	return nil, nil, failed
}

func (c *Conn) dialHost(ctx context.Context, within time.Duration, rawURL string) (*amqp.Connection, func() error, error) {
	uri, err := amqp.ParseURI(rawURL)
	if err != nil {
		return nil, nil, err
	}
	// The library puts TLS over what Dial returns, and the sieve has to be over that: so the connection is
	// encrypted here, and the library is told that it is plain.
	plain, isPlain := rawURL, true
	if rest, ok := strings.CutPrefix(rawURL, "amqps"); ok {
		plain, isPlain = "amqp"+rest, false
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, nil, errUnparsable
	}
	properties := c.properties()
	var socket net.Conn
	shaken := func() bool { return true }
	conn, err := amqp.DialConfig(plain, amqp.Config{
		Heartbeat:  heartbeat,
		Properties: properties,
		SASL:       outspoken(uri, properties),
		Dial: func(network, _ string) (net.Conn, error) {
			conn, err := (&net.Dialer{Timeout: within}).DialContext(ctx, network, net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port)))
			if err != nil {
				return nil, err
			}
			socket = conn
			shaken = context.AfterFunc(ctx, func() { _ = socket.Close() }) // the library's handshake knows no ctx
			// The library lifts this deadline once the handshake is done.
			if err = conn.SetDeadline(time.Now().Add(within)); err == nil && !isPlain {
				conn, err = tlsurl.Client(ctx, conn, u.Query(), c.config.TLS, uri.Host)
			}
			if err != nil {
				_ = socket.Close()
				return nil, err
			}
			return newSieve(gather(conn)), nil
		},
	})
	shaken()
	if err != nil {
		return nil, nil, classifyDial(err, rawURL)
	}
	return conn, socket.Close, nil
}

// outspoken returns the mechanisms that the URL asks for, in a form that has the
// broker say so when it refuses them. Otherwise it just ends the connection, as a
// broker does that dies.
func outspoken(uri amqp.URI, properties amqp.Table) []amqp.Authentication {
	if len(uri.AuthMechanism) == 0 {
		uri.AuthMechanism = []string{mechanismPlain}
	}
	var all []amqp.Authentication
	for _, mechanism := range uri.AuthMechanism {
		var auth amqp.Authentication = uri.PlainAuth()
		switch strings.ToLower(mechanism) {
		case mechanismAMQPlain:
			auth = uri.AMQPlainAuth()
		case mechanismExternal:
			auth = &amqp.ExternalAuth{}
		}
		all = append(all, &outspokenAuth{auth, properties})
	}
	return all
}

type outspokenAuth struct {
	amqp.Authentication
	properties amqp.Table
}

// Response adds the capability at the last moment: the library sets its own list
// before it asks for the response.
func (a *outspokenAuth) Response() string {
	if capabilities, ok := a.properties["capabilities"].(amqp.Table); ok {
		capabilities["authentication_failure_close"] = true
	}
	return a.Authentication.Response()
}
