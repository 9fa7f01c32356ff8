package redisbridge_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
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

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A password is replaced while a client runs: the next connection takes it from the file.
func TestRedisPasswordReplacedInFile(t *testing.T) {
	t.Parallel()
	url := servertest.RedisForTest(t).URL()
	admins := servertest.Primaries(t, url)
	path := filepath.Join(t.TempDir(), "redis-url")
	withPassword := func(password string) string {
		for _, admin := range admins {
			if err := admin.Do(t.Context(), "ACL", "SETUSER", "rotating", "on", "resetpass", ">"+password, "~*", "&*", "+@all").Err(); err != nil {
				t.Fatal(err)
			}
			if err := admin.Do(t.Context(), "CLIENT", "KILL", "USER", "rotating").Err(); err != nil {
				t.Fatal(err)
			}
		}
		return servertest.AsRedisUser(t, url, "rotating", password)
	}
	put(t, path, withPassword("s3cr3t-old"))
	client := open(t, "file://"+path)
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	now := withPassword("s3cr3t-new")
	until(t, "the old password is refused", func() bool {
		err := client.Ping(t.Context()).Err()
		return err != nil && strings.HasPrefix(err.Error(), "WRONGPASS")
	})
	put(t, path, now)
	until(t, "a connection with the new password", func() bool { return client.Ping(t.Context()).Err() == nil })

	// Without a password nothing is sent.
	for content, want := range map[string]string{"": "it is empty", "redis://u:s3cr3t@h:port": "cannot be parsed"} {
		withPassword("s3cr3t-new")
		put(t, path, content)
		var dial *net.OpError
		until(t, want, func() bool {
			err := client.Ping(t.Context()).Err()
			if err != nil && strings.Contains(err.Error(), "s3cr3t") {
				t.Fatal(err)
			}
			return errors.As(err, &dial) && dial.Op == "dial" && strings.Contains(dial.Error(), path+": ") && strings.Contains(dial.Error(), want)
		})
	}
}

// Every layout takes the credentials from the file.
func TestRedisURLInFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "redis-url")
	for name, content := range map[string]string{
		"a server":  "redis://user:%s3cr3t@h:1/2",
		"a cluster": "redis://user:%s3cr3t@h:1?addr=h:2",
		"Sentinels": "redis://sentinel:no@h:1/2?master_name=orders&username=user&password=%s3cr3t",
	} {
		t.Run(name, func(t *testing.T) {
			put(t, path, strings.Replace(content, "%", "old-", 1))
			var user, password string
			var err error
			client := open(t, "file://"+path)
			put(t, path, strings.Replace(content, "%", "new-", 1))
			switch client := client.(type) {
			case *redis.ClusterClient:
				user, password, err = client.Options().CredentialsProviderContext(t.Context())
			case *redis.Client:
				user, password, err = client.Options().CredentialsProviderContext(t.Context())
			}
			if user != "user" || password != "new-s3cr3t" || err != nil {
				t.Errorf("got %q, %q, %v", user, password, err)
			}
		})
	}
	for content, want := range map[string]string{
		"":                        "it is empty",
		"http://user:s3cr3t@h":    "http",
		"redis://u:s3cr3t@h:port": path,
	} {
		put(t, path, content)
		_, err := redisbridge.NewClient("file://" + path)
		if !errors.Is(err, redisbridge.ErrConfiguration) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%q: got %v, want ErrConfiguration that says %q", content, err, want)
		}
	}
}
