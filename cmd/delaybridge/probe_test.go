package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
)

func TestProbe(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/readyz":
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "not ready\nRedis does not answer\x1b[2J\n")
		case "/slow":
			<-r.Context().Done()
		default:
			_, _ = io.WriteString(w, "ok\n")
		}
	}))
	t.Cleanup(server.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()

	for name, c := range map[string]struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		"ready":           {[]string{server.URL + "/healthz"}, cli.ExitOK, "ok\n", ""},
		"not ready":       {[]string{server.URL}, cli.ExitFailed, "not ready\nRedis does not answer\\u001b[2J\n", "answers 503"},
		"nothing there":   {[]string{gone.URL}, cli.ExitUnreachable, "", "nothing answers"},
		"silent":          {[]string{server.URL + "/slow", "--timeout", "50ms"}, cli.ExitUnreachable, "", "nothing answers"},
		"no URL":          {[]string{"localhost:9464"}, cli.ExitUsage, "", "http://127.0.0.1:9464"},
		"no time":         {[]string{server.URL, "--timeout", "0s"}, cli.ExitUsage, "", "--timeout"},
		"too many places": {[]string{"a", "b"}, cli.ExitUsage, "", "probe --help"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := runIn(t, nil, append([]string{"probe"}, c.args...)...)
			if code != c.code || stdout != c.stdout || !strings.Contains(stderr, c.stderr) || (c.stderr == "") != (stderr == "") {
				t.Errorf("exit code %d, %q, %q; want %d, %q, %q", code, stdout, stderr, c.code, c.stdout, c.stderr)
			}
		})
	}
}
