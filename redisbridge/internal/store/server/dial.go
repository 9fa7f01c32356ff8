package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/delaybridge/delaybridge/internal/secretfile"
	"github.com/delaybridge/delaybridge/internal/tlsurl"
)

// credentials returns the user and the password for a connection.
type credentials func(context.Context) (user, password string, err error)

// dialer makes connections.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// unencrypted dials each server, of a cluster's and the Sentinels too, as encrypted does. It finds out that a
// server is gone, and asks before most load balancers forget a connection.
func unencrypted(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3}}
	socket, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return greet(socket), nil
}

// greeted is a connection over which the server has not said anything yet. The library greets a server, and
// sends nothing else before it has an answer. So where there is none nothing has been done, and the error is
// that of a server that cannot be dialled.
type greeted struct {
	net.Conn
	heard atomic.Bool
}

// greet returns a connection that does what conn can do.
func greet(conn net.Conn) net.Conn {
	g := &greeted{Conn: conn}
	if socket, ok := conn.(syscall.Conn); ok { // by which the library sees whether the server has hung up
		return struct {
			*greeted
			syscall.Conn
		}{g, socket}
	}
	return g
}

func (g *greeted) Read(b []byte) (n int, err error) {
	n, err = g.Conn.Read(b)
	if n > 0 {
		g.heard.Store(true)
	}
	return n, g.unanswered(err)
}

func (g *greeted) Write(b []byte) (n int, err error) {
	n, err = g.Conn.Write(b)
	return n, g.unanswered(err)
}

func (g *greeted) unanswered(err error) error {
	if err == nil || g.heard.Load() {
		return err
	}
	if reading := (*net.OpError)(nil); errors.As(err, &reading) && reading.Addr != nil {
		err = reading.Err // the address follows
	}
	address := g.RemoteAddr()
	dial := &net.OpError{Op: "dial", Net: address.Network(), Addr: address, Err: fmt.Errorf("connected, and it does not answer: %w", err)}
	return fmt.Errorf("greet Redis: %w", dial) // the library unwraps it once
}

// encrypted dials each server, of a cluster's and the Sentinels too, by what a query says of TLS. Its certificate
// has to be of the name or the address by which it is dialled, where the query gives none.
func encrypted(query url.Values) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		socket, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			host = address
		}
		conn, err := tlsurl.Client(ctx, socket, query, nil, host)
		if err != nil { // nothing has been sent
			_ = socket.Close()
			return nil, &net.OpError{Op: "dial", Net: network, Addr: socket.RemoteAddr(), Err: err}
		}
		return greet(conn), nil
	}
}

// credentialsIn returns the user and the password of Redis that a file has now. Without them
// nothing is sent, so that the error is that of a server that cannot be dialled.
func credentialsIn(fileURL string) (user, password string, err error) {
	content, err := secretfile.Resolve(fileURL)
	if err != nil {
		return "", "", &net.OpError{Op: "dial", Net: "redis", Err: err}
	}
	u, err := url.Parse(content)
	if err != nil { // which quotes the URL
		return "", "", &net.OpError{Op: "dial", Net: "redis", Err: errors.New(fileURL + ": the URL in it cannot be parsed")}
	}
	if query := u.Query(); query.Has("master_name") { // before the host are those of the Sentinels
		return query.Get("username"), query.Get("password"), nil
	}
	password, _ = u.User.Password()
	return u.User.Username(), password, nil
}
