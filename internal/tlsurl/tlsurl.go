// Package tlsurl makes TLS settings of what a URL says in its query, by the names that RabbitMQ's
// URIs have for them (https://www.rabbitmq.com/docs/uri-query-parameters), whatever server the URL
// is of. Files are read for each connection, so that certificates are replaced without a restart.
package tlsurl

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
)

// ErrSettings means that TLS settings are wrong, or the files that they name.
var ErrSettings = errors.New("wrong TLS settings")

// Names of the parameters. The last one is ours.
const (
	authority   = "cacertfile"             // PEM; without it the system's authorities count
	certificate = "certfile"               // PEM, of the client
	key         = "keyfile"                // PEM, of the client
	serverName  = "server_name_indication" // the name to ask for and to compare; without it the host
	minVersion  = "tls_min_version"        // 1.2 or 1.3; without it 1.2
)

var names = []string{authority, certificate, key, serverName, minVersion} //nolint:gochecknoglobals // a constant

// Unencrypted returns an error where a query says anything of TLS, for a URL whose scheme asks for none:
// who gives a certificate must not go on in plain text. Encrypted is the scheme that does.
func Unencrypted(query url.Values, encrypted string) error {
	for _, name := range names {
		if query.Has(name) {
			return fmt.Errorf("%w: %s means nothing without TLS: write %s://, or leave it out", ErrSettings, name, encrypted)
		}
	}
	return nil
}

// Without returns a URL without what it says of TLS, for who does not know these parameters.
func Without(u *url.URL) *url.URL {
	query := u.Query()
	rest := *u
	for _, name := range names {
		query.Del(name)
	}
	if len(query) < len(u.Query()) { // or it stays as it was written
		rest.RawQuery = query.Encode()
	}
	return &rest
}

// Client does the handshake with host over conn, by what a query says and what its files hold now.
// A base, where it is not nil, is what the query adds to.
func Client(ctx context.Context, conn net.Conn, query url.Values, base *tls.Config, host string) (*tls.Conn, error) {
	config, err := Config(query, base)
	if err != nil {
		return nil, err
	}
	config.ServerName = cmp.Or(config.ServerName, host)
	encrypted := tls.Client(conn, config)
	return encrypted, encrypted.HandshakeContext(ctx)
}

// Config reads the files that a query names, and adds what they hold to base, which may be nil and is not
// changed. The error names the parameter and its file.
func Config(query url.Values, base *tls.Config) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if base != nil {
		config = base.Clone()
	}
	config.ServerName = cmp.Or(query.Get(serverName), config.ServerName)
	var faults []error
	fault := func(name string, err error) { faults = append(faults, fmt.Errorf("%s: %w", name, err)) }
	switch version := query.Get(minVersion); version {
	case "":
	case "1.2":
		config.MinVersion = tls.VersionTLS12
	case "1.3":
		config.MinVersion = tls.VersionTLS13
	default:
		fault(minVersion, fmt.Errorf("%q: use 1.2 or 1.3", version))
	}
	if path := query.Get(authority); path != "" {
		content, err := os.ReadFile(path) //nolint:gosec // the user named it
		config.RootCAs = x509.NewCertPool()
		switch {
		case err != nil:
			fault(authority, err)
		case !config.RootCAs.AppendCertsFromPEM(content):
			fault(authority, fmt.Errorf("%s has no certificate in PEM", path))
		}
	}
	switch certFile, keyFile := query.Get(certificate), query.Get(key); {
	case certFile == "" && keyFile == "":
	case certFile == "" || keyFile == "":
		fault(certificate+" and "+key, errors.New("give both, or neither"))
	default:
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			fault(certificate+" and "+key, fmt.Errorf("%s, %s: %w", certFile, keyFile, err))
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSettings, err)
	}
	return config, nil
}
