package server

import (
	"context"
	"errors"
	"net"
	"net/url"

	"github.com/delaybridge/delaybridge/internal/secretfile"
	"github.com/delaybridge/delaybridge/internal/tlsurl"
)

// credentials returns the user and the password for a connection.
type credentials func(context.Context) (user, password string, err error)

// dialer makes connections. Nil leaves that to the library.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

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
		return conn, nil
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
