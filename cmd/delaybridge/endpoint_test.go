package main

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

// ask returns the answer over TLS to a request with a token, or "" for none.
func (w *watched) ask(t *testing.T, authority *servertest.Authority, path, token string) (code int, body string) {
	t.Helper()
	url := strings.Replace(w.url, "http:", "https:", 1) + path
	return fetch(t, url, token, &tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS12})
}

// Metrics are for those who have the token, probes for all; token and certificate are replaced while it runs.
func TestMetricsOverTLSWithAToken(t *testing.T) {
	t.Parallel()
	vars := scriptEnv(t)
	authority := servertest.NewAuthority(t)
	certFile, keyFile := authority.Issue(t, "server", time.Now().Add(-time.Minute), "127.0.0.1")
	token := secretFile(t, "token", "first\n", 0o600)
	// The topology is missing: the consumer waits for it, and is not ready.
	w := startServing(t, vars, nil, "consume", "--queue", "q", "--wait-for-topology",
		"--metrics-cert-file", certFile, "--metrics-key-file", keyFile, "--metrics-token-file", token)
	if _, says := w.ask(t, authority, "/healthz", ""); !strings.Contains(says, "expired") {
		t.Errorf("with an expired certificate: %s", says)
	}
	authority.Issue(t, "server", time.Now().Add(time.Hour), "127.0.0.1")
	for _, c := range []struct {
		path, token string
		code        int
		says        string
	}{
		{"/healthz", "", http.StatusOK, "ok\n"},
		{"/metrics", "", http.StatusUnauthorized, "send the token"},
		{"/metrics", "wrong", http.StatusUnauthorized, "send the token"},
		{"/metrics", "first", http.StatusOK, "go_goroutines"},
		{"/readyz", "first", http.StatusServiceUnavailable, "not ready\n"},
	} {
		if code, body := w.ask(t, authority, c.path, c.token); code != c.code || !strings.Contains(body, c.says) {
			t.Errorf("%s with token %q: %d %.200s", c.path, c.token, code, body)
		}
	}
	if code, body := w.ask(t, authority, "/readyz", ""); code != http.StatusServiceUnavailable || body != "not ready\n" {
		t.Errorf("a stranger gets %d %s", code, body)
	}
	if err := os.WriteFile(token, []byte("second"), 0o600); err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]int{"first": http.StatusUnauthorized, "second": http.StatusOK} {
		if code, _ := w.ask(t, authority, "/metrics", token); code != want {
			t.Errorf("token %q: %d, want %d", token, code, want)
		}
	}
	// One that is interrupted before it has worked ends with 130.
	await(t, "it waits for the topology", func() bool { return strings.Contains(w.output.String(), "exchange") || hasEnded(w) })
	w.stop(t, servePatience)
}

// A client that sends nothing is hung up on, so that it keeps nothing busy.
func TestMetricsHangUpOnTheSilent(t *testing.T) {
	t.Parallel()
	w := startServing(t, scriptEnv(t), nil, "consume", "--queue", "q", "--wait-for-topology")
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(servePatience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); err != nil {
		t.Errorf("still connected: %v", err)
	}
}

func TestWrongMetricsFiles(t *testing.T) {
	t.Parallel()
	vars := scriptEnv(t)
	empty := secretFile(t, "empty", "\n", 0o600)
	missing := filepath.Join(t.TempDir(), "missing")
	serve := []string{"--metrics-addr", "127.0.0.1:0"}
	for says, arguments := range map[string][]string{
		"give both, or neither":                          append(serve, "--metrics-cert-file", missing),
		missing + ": no such file":                       append(serve, "--metrics-cert-file", missing, "--metrics-key-file", missing),
		"--metrics-token-file: " + empty + ": it is emp": append(serve, "--metrics-token-file", empty),
		"mean nothing without --metrics-addr":            {"--metrics-token-file", empty},
	} {
		cmd := command(t, vars, append([]string{"bridge"}, arguments...)...)
		output, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != cli.ExitUsage || !strings.Contains(string(output), says) {
			t.Errorf("%s: exit code %d: %s", arguments, code, output)
		}
	}
}
