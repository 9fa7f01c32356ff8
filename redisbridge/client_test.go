package redisbridge_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/redisbridge"
)

// A client that repeated commands could not tell the truth about the first one.
func TestClientSendsEachCommandOnce(t *testing.T) {
	t.Parallel()
	for name, rawURL := range map[string]string{
		"a server":  "redis://user:secret@h:1/2",
		"TLS":       "rediss://h",
		"a cluster": "redis://user:secret@h:1?addr=h:2&addr=h:3&max_redirects=7",
		"Sentinels": "redis://h:1/2?master_name=orders&addr=h:2&password=secret&max_retries=7",
	} {
		client := open(t, rawURL)
		repeats := 0
		switch client := client.(type) {
		case *redis.ClusterClient:
			repeats = client.Options().MaxRedirects
		case *redis.Client:
			repeats = client.Options().MaxRetries
		}
		if repeats != 0 {
			t.Errorf("%s: repeats a command %d times", name, repeats)
		}
	}
	if _, cluster := open(t, "redis://h:1?addr=h:2").(*redis.ClusterClient); !cluster {
		t.Error("further nodes make no cluster")
	}
}

func open(t *testing.T, rawURL string) redis.UniversalClient {
	t.Helper()
	client, err := redisbridge.NewClient(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestWrongURLIsSaidWithoutPasswords(t *testing.T) {
	t.Parallel()
	for rawURL, want := range map[string]string{
		"http://user:secret@h":                                         "http",
		"redis://user:secret@h:port/0":                                 "cannot be parsed",
		"redis://user:secret@h/first":                                  "database",
		"redis://user:secret@h?addr=h":                                 "addr",
		"redis://user:secret@h?addr=h:1&password=secret":               "password",
		"redis://h?master_name=&password=secret":                       "master_name is empty",
		"redis://user:secret@h?master_name=m&addr=h":                   "addr",
		"redis://h?master_name=m&replica_only=true&password=secret":    "replica",
		"redis://h?master_name=m&route_randomly=true&password=secret":  "replica",
		"redis://h?master_name=m&password=secret&no_such_option=first": "no_such_option",
	} {
		_, err := redisbridge.NewClient(rawURL)
		if !errors.Is(err, redisbridge.ErrConfiguration) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want ErrConfiguration that says %q", rawURL, err, want)
		}
	}
}
