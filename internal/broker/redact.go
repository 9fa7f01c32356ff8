package broker

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/internal/secretfile"
)

const (
	hidden     = "xxxxx" // stands for a secret
	unparsable = "a URL that cannot be parsed"
)

// Redact returns rawURL, of RabbitMQ or Redis, without what is or may be a secret, for
// messages and logs. Passwords may be in the query, too: there the URL of Redis Sentinels
// has the password of Redis. The name of a file that has the URL is no secret.
func Redact(rawURL string) string {
	if _, inFile := secretfile.Path(rawURL); inFile {
		return rawURL
	}
	hosts := Hosts(rawURL)
	u, err := url.Parse(hosts[0])
	for _, other := range hosts[1:] {
		next, err := url.Parse(other)
		if u == nil || err != nil {
			return unparsable
		}
		u.Host += "," + next.Host
	}
	switch {
	case err != nil, u.Scheme == "", u.Host == "" && u.Scheme != "unix":
		return unparsable
	case Misread(u), strings.Contains(u.EscapedPath(), "@"):
		return u.Scheme + "://" + hidden
	}
	if _, has := u.User.Password(); !has && u.User != nil && strings.HasPrefix(u.Scheme, "redis") {
		u.User = url.User(hidden) // Redis knows passwords without a user, so perhaps this is one
	}
	query := u.Query()
	for key, values := range query {
		if strings.Contains(u.RawQuery, "@") && !known(key) { // part of a password, too
			return u.Scheme + "://" + hidden
		}
		for i, value := range values {
			if !public(key, value) {
				values[i] = hidden
			}
		}
	}
	if len(query) > 0 || u.RawQuery != "" {
		u.RawQuery = query.Encode()
	}
	u.Fragment, u.RawFragment = "", "" // which no server knows
	return u.Redacted()
}

// public reports whether the value of an option in a query can be shown.
func public(key, value string) bool {
	switch key {
	case "addr":
		return !strings.Contains(value, "@")
	case "master_name", "username", "client_name", "auth_mechanism", "cacertfile", "certfile", "keyfile", "server_name_indication", "tls_min_version":
		return true
	}
	_, notNumber := strconv.Atoi(value)
	_, notDuration := time.ParseDuration(value)
	return notNumber == nil && key == "db" || notDuration == nil && strings.HasSuffix(key, "_timeout")
}

var errUnparsable = errors.New("what is special in user and password has to be written as %2F for /, %3F for ?, %23 for #, %20 for a blank")

// known reports whether key is an option that may have an @ in its value.
func known(key string) bool { return key == "password" || key == "addr" || public(key, "") }

// ErrMisread means that a URL's password has a character that ends it.
var ErrMisread = errors.New("there is an @ behind the host: in user and password, write / as %2F, ? as %3F, # as %23 and @ as %40")

// Misread reports whether there is an @ behind what was taken for the host, and none before
// it: then that is in fact the user's name, and the rest of the password is behind it.
func Misread(u *url.URL) bool {
	option, _, _ := strings.Cut(u.RawQuery, "=")
	return u.User == nil && strings.Contains(u.EscapedPath()+option+u.EscapedFragment(), "@")
}
