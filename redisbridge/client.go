package redisbridge

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/broker"
)

// clusterReload is how old a client's map of a Redis Cluster may be when it is
// used. A node that has failed can no longer say who has its slots now.
const clusterReload = 5 * time.Second

// NewClient returns a client for a URL. It does no I/O.
//
//	redis://user:password@host:6379/0                     a server; rediss:// for TLS
//	redis://user:password@host:6379?addr=host:6379&...    a Redis Cluster, by some of its nodes
//	redis://host:26379/0?master_name=name&addr=host:26379&username=user&password=password
//	                                                      a server that Sentinels watch, by some of them
//
// A user and a password in front of the Sentinel's host are for the Sentinels.
//
// The client sends each command once. The library would otherwise repeat it
// after a lost connection, too, and tell only how the last repetition fared: a
// message whose first answer was lost looks never sent, or parked before by
// another client. In a Redis Cluster it follows MOVED, by which a node says that
// it has done nothing, but not ASK: while the keys of a slot move one by one,
// a script would work on a part of them.
func NewClient(rawURL string) (redis.UniversalClient, error) {
	query := url.Values{}
	if u, err := url.Parse(rawURL); err == nil {
		query = u.Query()
	}
	client, err := newClient(rawURL, query)
	if u, parseErr := url.Parse(rawURL); err == nil && parseErr == nil && broker.Misread(u) {
		_ = client.Close()
		err = broker.ErrMisread
	}
	if err != nil {
		return nil, wrongURL(rawURL, query, err)
	}
	return client, nil
}

func newClient(rawURL string, query url.Values) (redis.UniversalClient, error) {
	switch {
	case query.Has("master_name"):
		options, err := redis.ParseFailoverURL(rawURL)
		if err != nil {
			return nil, err
		}
		if options.MasterName == "" {
			return nil, errors.New("master_name is empty")
		}
		if options.RouteByLatency || options.RouteRandomly || options.ReplicaOnly {
			return nil, errors.New("a replica can park nothing")
		}
		options.MaxRetries = -1
		return redis.NewFailoverClient(options), nil
	case query.Has("addr"):
		options, err := redis.ParseClusterURL(rawURL)
		if err != nil {
			return nil, err
		}
		options.MaxRedirects, options.ClusterStateReloadInterval = -1, clusterReload
		client := redis.NewClusterClient(options)
		client.AddHook(moves{})
		return client, nil
	}
	options, err := redis.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	options.MaxRetries = -1
	return redis.NewClient(options), nil
}

// wrongURL says what is wrong with a URL. The library's error may quote any part of it, the
// password too, and so is left out where that is possible.
func wrongURL(rawURL string, query url.Values, err error) error {
	reason := err.Error()
	u, parseErr := url.Parse(rawURL)
	switch {
	case parseErr != nil || u.Opaque != "":
		reason = "it cannot be parsed"
	case broker.Misread(u):
		reason = broker.ErrMisread.Error()
	case slices.ContainsFunc(query["addr"], func(addr string) bool { return strings.Contains(addr, "@") }):
		reason = "there is an @ in addr: user and password belong in front of the first host"
	default:
		password, _ := u.User.Password()
		for _, secret := range []string{password, query.Get("password")} {
			if secret != "" && strings.Contains(reason, secret) {
				reason = "the database, or an option, is not what it has to be"
			}
		}
	}
	return fmt.Errorf("%w: %s: %s; want redis://user:password@host:6379/0", ErrConfiguration, broker.Redact(rawURL), reason)
}
