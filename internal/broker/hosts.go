package broker

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/secretfile"
	"github.com/delaybridge/delaybridge/internal/tlsurl"
)

// Hosts returns the URL of each host of an AMQP URL. A URL may name several nodes of one
// cluster: amqp://user:password@a:5672,b:5672,c/vhost. It may be in a file, file:///path. Hosts
// always returns at least one.
func Hosts(rawURL string) []string {
	if inFile, err := secretfile.Resolve(rawURL); err == nil {
		rawURL = inFile
	}
	scheme, rest, found := strings.Cut(rawURL, "://")
	if !found || !strings.HasPrefix(scheme, "amqp") {
		return []string{rawURL}
	}
	end := len(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		end = i
	}
	hosts, behind := rest[:end], rest[end:]
	at := strings.LastIndexByte(hosts, '@') + 1
	before := scheme + "://" + hosts[:at]
	var list []string
	for host := range strings.SplitSeq(hosts[at:], ",") {
		list = append(list, before+host+behind)
	}
	return list
}

// ParseURI reads an AMQP URL that may name several hosts, and returns the first of them; what
// else it says holds for all. It may be in a file, file:///path. Username is empty where the
// user is known by a certificate and the URL does not name it.
func ParseURI(rawURL string) (amqp.URI, error) {
	rawURL, err := secretfile.Resolve(rawURL)
	if err != nil {
		return amqp.URI{}, err
	}
	hosts := Hosts(rawURL)
	var first amqp.URI
	for i, host := range hosts {
		uri, err := amqp.ParseURI(host)
		u, parseErr := url.Parse(host)
		switch _, ours := errors.AsType[*url.Error](err); {
		case parseErr == nil && Misread(u):
			return amqp.URI{}, ErrMisread
		case ours:
			return amqp.URI{}, errUnparsable // the parser's error quotes the URL, or what it takes for its port
		case err != nil:
			return amqp.URI{}, err
		case len(hosts) > 1 && u.Hostname() == "":
			return amqp.URI{}, errNoHost
		case uri.Scheme == "amqp":
			if err := tlsurl.Unencrypted(u.Query(), "amqps"); err != nil {
				return amqp.URI{}, err
			}
		}
		if err := wrongMechanism(uri); err != nil {
			return amqp.URI{}, err
		}
		if isExternal(uri.AuthMechanism) && u.User == nil {
			uri.Username = "" // rather than guest
		}
		if i == 0 {
			first = uri
		}
	}
	return first, nil
}

// The values of auth_mechanism, in upper case as well.
const (
	mechanismPlain    = "plain"
	mechanismAMQPlain = "amqplain"
	mechanismExternal = "external" // by the client's certificate
)

// wrongMechanism says what is wrong with the mechanisms that a URL asks for.
func wrongMechanism(uri amqp.URI) error {
	for _, mechanism := range uri.AuthMechanism {
		switch strings.ToLower(mechanism) {
		case mechanismPlain, mechanismAMQPlain:
		case mechanismExternal:
			if uri.Scheme != "amqps" {
				return errExternalWithoutTLS
			}
		default:
			return fmt.Errorf("auth_mechanism %q: use plain (the default), amqplain or external", mechanism)
		}
	}
	return nil
}

// isExternal reports whether the broker may take the user from the client's certificate.
func isExternal(mechanisms []string) bool {
	return slices.ContainsFunc(mechanisms, func(m string) bool { return strings.EqualFold(m, mechanismExternal) })
}

var (
	errNoHost             = errors.New("there is no host before or behind a comma")
	errExternalWithoutTLS = errors.New("auth_mechanism=external means nothing without TLS: write amqps://, with certfile and keyfile, or leave it out")
	errNoCertificate      = errors.New("auth_mechanism=external authenticates by a certificate: name it by certfile and keyfile, or leave auth_mechanism out")
)
