package servertest

import (
	"context"
	"net/url"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// NewRedisClient returns a client of Redis in whatever layout its URL describes, which
// gives up at the first refusal. Tests have [OpenRedis], which closes it, too.
func NewRedisClient(rawURL string) (redis.UniversalClient, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, err
	}
	switch query := u.Query(); {
	case query.Has("master_name"):
		options, err := redis.ParseFailoverURL(rawURL)
		if err != nil {
			return nil, err
		}
		options.MaxRetries = -1
		return redis.NewFailoverClient(options), nil
	case query.Has("addr"):
		options, err := redis.ParseClusterURL(rawURL)
		if err != nil {
			return nil, err
		}
		return redis.NewClusterClient(options), nil
	}
	options, err := redis.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	options.MaxRetries = -1
	return redis.NewClient(options), nil
}

// eachPrimary does something with each server that takes writes.
func eachPrimary(ctx context.Context, client redis.UniversalClient, do func(context.Context, *redis.Client) error) error {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, do)
	}
	return do(ctx, client.(*redis.Client))
}

// OpenRedis connects to Redis in whatever layout its URL describes.
func OpenRedis(t testing.TB, rawURL string) redis.UniversalClient {
	t.Helper()
	client, err := NewRedisClient(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() }) // what it was connected to may be gone
	return client
}

// Primaries connects an operator to each server of a Redis URL that takes
// writes: of a cluster several, each of which is told what an operator tells it.
func Primaries(t testing.TB, rawURL string) []*redis.Client {
	t.Helper()
	client := OpenRedis(t, rawURL)
	var mu sync.Mutex
	var all []*redis.Client
	err := eachPrimary(t.Context(), client, func(_ context.Context, c *redis.Client) error {
		if _, ok := client.(*redis.ClusterClient); ok {
			c = redis.NewClient(&redis.Options{Addr: c.Options().Addr, MaxRetries: -1})
			t.Cleanup(func() { _ = c.Close() })
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, c)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// AsRedisUser returns the URL with other credentials for Redis. Those in front
// of the host are the Sentinels', where there are any.
func AsRedisUser(t testing.TB, rawURL, name, password string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	if query.Has("master_name") {
		query.Set("username", name)
		query.Set("password", password)
		u.RawQuery = query.Encode()
	} else {
		u.User = url.UserPassword(name, password)
	}
	return u.String()
}
