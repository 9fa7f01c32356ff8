// Package server speaks with Redis servers: it makes clients, and knows what errors mean, how
// servers are set up, and what their clocks show. It knows nothing of what they keep.
package server

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/secretfile"
	"github.com/delaybridge/delaybridge/internal/tlsurl"
)

// clusterReload is how old a client's map of a Redis Cluster may be when it is
// used. A node that has failed can no longer say who has its slots now.
const clusterReload = 5 * time.Second

// NewClient is redisbridge.NewClient.
func NewClient(rawURL string) (redis.UniversalClient, error) {
	var fresh credentials // nil takes those of the URL
	named := rawURL
	if _, inFile := secretfile.Path(named); inFile {
		fresh = func(context.Context) (user, password string, err error) { return credentialsIn(named) }
	}
	rawURL, err := secretfile.Resolve(named)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfiguration, err)
	}
	query := url.Values{}
	plain := rawURL // without what the library does not know
	var dial dialer
	if u, parseErr := url.Parse(rawURL); parseErr == nil {
		query = u.Query()
		plain = tlsurl.Without(u).String()
		if u.Scheme == "rediss" {
			dial = encrypted(query)
			_, err = tlsurl.Config(query, nil) // a wrong file is reported before any connection is made
		} else {
			dial = unencrypted
			err = tlsurl.Unencrypted(query, "rediss")
		}
	}
	var client redis.UniversalClient
	if err == nil {
		client, err = newClient(plain, query, dial, fresh)
	}
	if u, parseErr := url.Parse(rawURL); err == nil && parseErr == nil && broker.Misread(u) {
		_ = client.Close()
		err = broker.ErrMisread
	}
	switch {
	case err == nil:
		return client, nil
	case fresh != nil:
		return nil, fmt.Errorf("%s: %w", named, wrongURL(rawURL, query, err))
	default:
		return nil, wrongURL(rawURL, query, err)
	}
}

func newClient(rawURL string, query url.Values, dial dialer, fresh credentials) (redis.UniversalClient, error) {
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
		options.MaxRetries, options.CredentialsProviderContext, options.Dialer = -1, fresh, dial
		return redis.NewFailoverClient(options), nil
	case query.Has("addr"):
		options, err := redis.ParseClusterURL(rawURL)
		if err != nil {
			return nil, err
		}
		options.MaxRedirects, options.ClusterStateReloadInterval, options.CredentialsProviderContext = -1, clusterReload, fresh
		options.Dialer = dial
		client := redis.NewClusterClient(options)
		client.AddHook(moves{})
		return client, nil
	}
	options, err := redis.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	options.MaxRetries, options.CredentialsProviderContext, options.Dialer = -1, fresh, dial
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

const (
	// movesMost bounds how often a command is sent again after MOVED.
	movesMost = 5
	// movesPause is about how long the library takes to ask for the new map.
	movesPause = 20 * time.Millisecond
)

// moves has a cluster's client send a command again where a node answers that
// the keys are elsewhere. Until then the library has got a new map.
type moves struct{}

func (moves) DialHook(next redis.DialHook) redis.DialHook { return next }

func (moves) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (moves) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		for try := 1; try <= movesMost && err != nil && strings.HasPrefix(err.Error(), "MOVED ") && ctx.Err() == nil; try++ {
			Pause(ctx, time.Duration(try)*movesPause)
			err = next(ctx, cmd)
		}
		return err
	}
}

// Pause waits for d or the end of ctx.
func Pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
