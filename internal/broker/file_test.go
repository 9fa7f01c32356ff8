package broker_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A password is replaced while a connection runs: the next one takes it from the file.
func TestPasswordReplacedInFile(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	user := "user-" + env.VHost
	t.Cleanup(func() { env.Manage(t, http.MethodDelete, "/api/users/"+user, "") })
	at, err := url.Parse(env.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	withPassword := func(password string) string {
		env.Manage(t, http.MethodPut, "/api/users/"+user, `{"password":"`+password+`","tags":""}`)
		at.User = url.UserPassword(user, password)
		return at.String()
	}
	path := filepath.Join(t.TempDir(), "amqp-url")
	put(t, path, withPassword("old"))
	env.Manage(t, http.MethodPut, "/api/permissions/"+env.VHost+"/"+user, `{"configure":".*","write":".*","read":".*"}`)

	connected, refused := make(chan struct{}, 10), make(chan struct{}, 1)
	conn, err := broker.New(broker.Config{
		URL: "file://" + path, Name: t.Name(),
		Connected: func() { connected <- struct{}{} },
		Logger:    slog.New(tell{slog.DiscardHandler, "the broker refused user name or password", refused}),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- conn.Run(ctx) }()
	wait := func(what string, happened <-chan struct{}) {
		t.Helper()
		select {
		case <-happened:
		case err := <-ended:
			t.Fatalf("%s: Run ended: %v", what, err)
		case <-ctx.Done():
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
	wait("the connection", connected)
	now := withPassword("new")
	tick := time.NewTicker(100 * time.Millisecond) // the management plugin takes seconds to know of a connection
	defer tick.Stop()
	for closeConnections(t, env) == 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the management API never showed the connection")
		}
	}
	wait("the old password is refused", refused)
	put(t, path, now)
	wait("the connection with the new password", connected)
	if _, vhost, err := conn.Server(ctx); vhost != env.VHost || err != nil {
		t.Errorf("virtual host %q, %v", vhost, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run ended: %v", err)
	}
}

// What is wrong with a file is said at the start, and nothing that is in it.
func TestWrongURLInFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "amqp-url")
	for content, want := range map[string]string{
		"":                          path + ": it is empty",
		"http://u:s3cr3t@h":         "AMQP scheme must be",
		"amqp://u:s3cr3t@h:port":    "file://" + path,
		"amqp://u:s3cr3t/@h":        "%2F for /",
		"amqp://u:s3cr3t@h\nx":      "more than one line",
		"file:///" + path:           "names a file in turn",
		"amqp://u:s3cr3t@a,b:port/": "file://" + path,
	} {
		put(t, path, content)
		_, err := broker.New(broker.Config{URL: "file://" + path})
		if !errors.Is(err, broker.ErrConfiguration) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%q: got %v, want ErrConfiguration that says %q", content, err, want)
		}
	}
	missing := "file://" + path + ".missing"
	if _, err := broker.New(broker.Config{URL: missing}); !errors.Is(err, broker.ErrConfiguration) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	put(t, path, "amqp://u:s3cr3t@a,b:1/v")
	if hosts := broker.Hosts("file://" + path); len(hosts) != 2 || broker.Redact("file://"+path) != "file://"+path {
		t.Errorf("hosts %v, redacted %s", hosts, broker.Redact("file://"+path))
	}
}
