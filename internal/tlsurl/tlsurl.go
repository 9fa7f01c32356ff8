// Package tlsurl makes TLS settings of what a URL says in its query, by the names that RabbitMQ's
// URIs have for them (https://www.rabbitmq.com/docs/uri-query-parameters), whatever server the URL
// is of. Files are read for each connection, so that certificates are replaced without a restart.
package tlsurl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
)

// Names of the parameters. The last one is ours.
const (
	authority   = "cacertfile"             // PEM; without it the system's authorities count
	certificate = "certfile"               // PEM, of the client
	key         = "keyfile"                // PEM, of the client
	serverName  = "server_name_indication" // the name to ask for and to compare; without it the host
	minVersion  = "tls_min_version"        // 1.2 or 1.3; without it 1.2
)

var names = []string{authority, certificate, key, serverName, minVersion} //nolint:gochecknoglobals // a constant

// Given reports whether a query says anything of TLS.
func Given(query url.Values) bool { return slices.ContainsFunc(names, query.Has) }

// Without returns a URL without what it says of TLS, for who does not know these parameters.
func Without(u *url.URL) *url.URL {
	query := u.Query()
	if !Given(query) {
		return u
	}
	for _, name := range names {
		query.Del(name)
	}
	rest := *u
	rest.RawQuery = query.Encode()
	return &rest
}

// Config reads the files that a query names. The error names the parameter and its file.
func Config(query url.Values) (*tls.Config, error) {
	config := &tls.Config{ServerName: query.Get(serverName), MinVersion: tls.VersionTLS12}
	var faults []error
	fault := func(name string, err error) { faults = append(faults, fmt.Errorf("%s: %w", name, err)) }
	switch version := query.Get(minVersion); version {
	case "", "1.2":
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
		return nil, err
	}
	return config, nil
}
