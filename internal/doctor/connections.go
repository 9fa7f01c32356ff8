package doctor

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/secretfile"
	"github.com/delaybridge/delaybridge/internal/tlsurl"
)

// certificateLeft is how much longer a certificate should last.
const certificateLeft = 14 * 24 * time.Hour

// connection is one to a server, as a URL asks for it.
type connection struct {
	subject, address string
	url              *url.URL
	encrypted        string // the scheme that asks for TLS
}

// connections looks at how the settings have a bridge connect.
func (x *examination) connections(ctx context.Context) (findings []Finding, err error) {
	all, err := x.connectionsOf()
	for _, c := range all {
		findings = append(findings, c.plain()...)
		if c.url.Scheme != c.encrypted {
			continue
		}
		certificates, failed := c.certificates(ctx)
		err = errors.Join(err, failed)
		for name, certificate := range certificates {
			findings = append(findings, ends(c.subject, name, certificate, x.Now())...)
		}
	}
	return findings, err
}

func (x *examination) connectionsOf() (all []connection, err error) {
	add := func(server, rawURL, encrypted, port string, more ...string) {
		u, failed := url.Parse(rawURL)
		if failed != nil { // which quotes the URL
			err = errors.Join(err, fmt.Errorf("%s: %s cannot be parsed", server, broker.Redact(rawURL)))
			return
		}
		hosts := append([]string{u.Host}, more...)
		for _, host := range hosts {
			at := *u
			at.Host = host
			address := net.JoinHostPort(at.Hostname(), cmp.Or(at.Port(), port))
			all = append(all, connection{subject: server + " at " + address, address: address, url: &at, encrypted: encrypted})
		}
	}
	for _, host := range broker.Hosts(x.AMQPURL) {
		port := "5672"
		if u, err := url.Parse(host); err == nil && u.Scheme == "amqps" {
			port = "5671"
		}
		add("RabbitMQ", host, "amqps", port)
	}
	management, failed := secretfile.Resolve(x.ManagementURL)
	if err = errors.Join(err, failed); management != "" {
		add("management API", management, "https", "443")
	}
	redis, failed := secretfile.Resolve(x.RedisURL)
	if err = errors.Join(err, failed); redis != "" {
		query := url.Values{}
		if u, failed := url.Parse(redis); failed == nil {
			query = u.Query()
		}
		add("Redis", redis, "rediss", "6379", query["addr"]...)
	}
	return all, err
}

// plain finds what goes to another host in plain text, and the password that everybody knows.
func (c connection) plain() (findings []Finding) {
	if isHere(c.url.Hostname()) {
		return nil
	}
	if c.url.Scheme != c.encrypted {
		findings = append(findings, find(plaintext, c.subject, c.url.Scheme+":// goes there in plain text"))
	}
	if password, _ := c.url.User.Password(); c.url.User.Username() == "guest" && password == "guest" {
		findings = append(findings, find(defaultPassword, c.subject, "the user guest has the password guest",
			"rabbitmqctl change_password guest PASSWORD"))
	}
	return findings
}

// isHere reports whether a host is this one.
func isHere(host string) bool {
	return host == "" || host == "localhost" || net.ParseIP(host).IsLoopback()
}

// certificates returns the server's, and that of this client, by what each is called.
func (c connection) certificates(ctx context.Context) (map[string]*x509.Certificate, error) {
	socket, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = socket.Close() }()
	conn, err := tlsurl.Client(ctx, socket, c.url.Query(), nil, c.url.Hostname())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.subject, err)
	}
	found := map[string]*x509.Certificate{"the server's certificate": conn.ConnectionState().PeerCertificates[0]}
	config, err := tlsurl.Config(c.url.Query(), nil)
	if err == nil && len(config.Certificates) > 0 {
		found["the certificate in "+c.url.Query().Get("certfile")] = config.Certificates[0].Leaf
	}
	return found, err
}

// ends finds a certificate that is about to end.
func ends(subject, name string, certificate *x509.Certificate, now time.Time) []Finding {
	left := certificate.NotAfter.Sub(now)
	if left >= certificateLeft {
		return nil
	}
	return []Finding{find(certificateEnds, subject, fmt.Sprintf("%s ends at %s, in %s",
		name, certificate.NotAfter.UTC().Format(time.RFC3339), left.Round(time.Minute)))}
}
