package redisbridge

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"
)

// NewClient returns a client for a URL: redis://user:password@host:port/db, or
// rediss:// for TLS. With further nodes (?addr=host:port&addr=...) it is a Redis
// Cluster. It does no I/O.
//
// The client of a single server repeats no command by itself. The library
// would otherwise tell only how the last repetition fared: a message whose
// first answer was lost looks never sent, or parked before by somebody else.
func NewClient(rawURL string) (redis.UniversalClient, error) {
	if u, err := url.Parse(rawURL); err == nil && u.Query().Has("addr") {
		options, err := redis.ParseClusterURL(rawURL)
		if err != nil {
			return nil, wrongURL(rawURL, err)
		}
		return redis.NewClusterClient(options), nil
	}
	options, err := redis.ParseURL(rawURL)
	if err != nil {
		return nil, wrongURL(rawURL, err)
	}
	options.MaxRetries = -1
	return redis.NewClient(options), nil
}

// wrongURL leaves the URL's password out, which the library's error may quote.
func wrongURL(rawURL string, err error) error {
	shown, reason := "the URL", err.Error()
	if u, parseErr := url.Parse(rawURL); parseErr == nil {
		shown = u.Redacted()
		if password, ok := u.User.Password(); ok && password != "" {
			reason = strings.ReplaceAll(reason, password, "xxxxx")
		}
	} else {
		reason = "it cannot be parsed"
	}
	return fmt.Errorf("%w: %s: %s; want redis://user:password@host:6379/0", ErrConfiguration, shown, reason)
}
