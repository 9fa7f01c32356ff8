package main

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

// encrypted is one test's corner of the servers, each to be had over mutual TLS alone.
type encrypted struct {
	vars              map[string]string
	trusted, stranger *servertest.Authority
	cut               func() // ends all connections
}

// encryptedURLs returns the names of the URLs in the environment, with the scheme that each has over TLS.
func encryptedURLs() map[string]string {
	return map[string]string{"DELAYBRIDGE_AMQP_URL": "amqps", "DELAYBRIDGE_REDIS_URL": "rediss", "DELAYBRIDGE_MANAGEMENT_URL": "https"}
}

func overTLS(t *testing.T) *encrypted {
	t.Helper()
	e := &encrypted{vars: scriptEnv(t), trusted: servertest.NewAuthority(t), stranger: servertest.NewAuthority(t)}
	clientCert, clientKey := e.trusted.Issue(t, "client", time.Now().Add(time.Hour))
	e.serverUntil(t, time.Now().Add(time.Hour))
	var cuts []func()
	for name, scheme := range encryptedURLs() {
		u, err := url.Parse(e.vars[name])
		if err != nil {
			t.Fatal(err)
		}
		query := u.Query()
		if query.Has("addr") || query.Has("master_name") {
			continue // whose servers tell clients where the others are
		}
		address, cut := e.trusted.Encrypt(t, u.Host)
		u.Scheme, u.Host = scheme, address
		for parameter, file := range map[string]string{"cacertfile": e.trusted.File, "certfile": clientCert, "keyfile": clientKey} {
			query.Set(parameter, file)
		}
		u.RawQuery = query.Encode()
		e.vars[name] = u.String()
		cuts = append(cuts, cut)
	}
	e.cut = func() {
		for _, cut := range cuts {
			cut()
		}
	}
	return e
}

// serverUntil gives the servers a new certificate.
func (e *encrypted) serverUntil(t *testing.T, until time.Time) {
	t.Helper()
	e.trusted.Issue(t, "server", until, "127.0.0.1")
}

// run runs a command that has to end with a code, and returns what it says.
func (e *encrypted) run(t *testing.T, code int, arguments ...string) string {
	t.Helper()
	cmd := command(t, e.vars, arguments...)
	output, _ := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("%s: exit code %d, want %d:\n%.3000s", arguments, got, code, output)
	}
	return string(output)
}

// Every command that has a connection makes it over mutual TLS. Certificates are replaced while a bridge
// works; with one that has expired it waits, and says why.
func TestEverythingOverMutualTLS(t *testing.T) {
	t.Parallel()
	e := overTLS(t)
	e.run(t, exitOK, "topology", "apply")
	bridge := startServing(t, e.vars, nil, "bridge")
	bridge.awaitReady(t)
	trip := func(id string) {
		t.Helper()
		e.run(t, exitOK, "publish", "--id", id, "--key", "k", "--in", "5s")
		if got := e.run(t, exitOK, "get", id, "-o", "json"); !strings.Contains(got, `"parked"`) {
			t.Errorf("get %s: %s", id, got)
		}
		e.run(t, exitOK, "reschedule", id, "--in", "1s")
		if got := e.run(t, exitOK, "consume", "--queue", "q", "--bind", "#", "--count", "1", "--timeout", "90s"); !strings.Contains(got, id) {
			t.Errorf("consumed: %s", got)
		}
	}
	trip("first")
	for _, arguments := range [][]string{
		{"topology", "verify"}, {"list"}, {"stats"}, {"top", "--once"}, {"quarantine", "list"}, {"migrate"},
	} {
		e.run(t, exitOK, arguments...)
	}
	for _, seen := range []string{"[ok] topology and policies", "[ok] Redis' version and state"} {
		if got := e.run(t, exitDrift, "doctor"); !strings.Contains(got, seen) { // there is one bridge, and its user may all
			t.Errorf("doctor does not say %s: %s", seen, got)
		}
	}

	e.serverUntil(t, time.Now().Add(-time.Minute))
	e.cut()
	await(t, "the bridge says why it cannot connect", func() bool {
		code, _ := bridge.get(t, "/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(bridge.output.String(), "certificate has expired")
	})
	if got := e.run(t, exitUsage, "topology", "apply"); !strings.Contains(got, "certificate has expired") {
		t.Errorf("it says: %s", got)
	}
	e.serverUntil(t, time.Now().Add(time.Hour))
	bridge.awaitReady(t)
	trip("second")
	bridge.stop(t, servePatience)
}

// Who is not trusted, or does not trust, is told so, and a wrong setting is named.
func TestMutualTLSRefused(t *testing.T) {
	t.Parallel()
	e := overTLS(t)
	e.run(t, exitOK, "topology", "apply")
	e.vars["DELAYBRIDGE_CONNECT_TIMEOUT"] = "1s"
	_, strangerKey := e.stranger.Issue(t, "client", time.Now().Add(time.Hour))
	commands := map[string][]string{
		"DELAYBRIDGE_AMQP_URL": {"publish", "--untracked", "--id", "a", "--key", "k", "--in", "1s"}, "DELAYBRIDGE_REDIS_URL": {"list"},
		"DELAYBRIDGE_MANAGEMENT_URL": {"topology", "verify"},
	}
	for name, arguments := range commands {
		good := e.vars[name]
		u, err := url.Parse(good)
		if err != nil {
			t.Fatal(err)
		}
		if u.Scheme != encryptedURLs()[name] {
			continue
		}
		for parameter, wrong := range map[string]struct{ value, says string }{
			"cacertfile":             {e.stranger.File, "unknown authority"},
			"server_name_indication": {"other.example", "other.example"},
			"keyfile":                {strangerKey, "private key does not match"},
			"certfile":               {"", "certfile and keyfile: give both"},
			"tls_min_version":        {"1.1", "use 1.2 or 1.3"},
		} {
			query := u.Query()
			query.Set(parameter, wrong.value)
			with := *u
			with.RawQuery = query.Encode()
			e.vars[name] = with.String()
			got := e.fails(t, arguments...)
			if !strings.Contains(got, wrong.says) {
				t.Errorf("%s with another %s: it says %s, want %q", name, parameter, got, wrong.says)
			}
		}
		plain := *u
		plain.Scheme = strings.TrimSuffix(u.Scheme, "s")
		e.vars[name] = plain.String()
		if got := e.fails(t, arguments...); !strings.Contains(got, "means nothing without TLS: write "+u.Scheme+"://") {
			t.Errorf("%s without TLS: it says %s", name, got)
		}
		e.vars[name] = good
	}
}

// fails runs a command that cannot do its work.
func (e *encrypted) fails(t *testing.T, arguments ...string) string {
	t.Helper()
	cmd := command(t, e.vars, arguments...)
	output, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != exitUsage && code != exitUnreachable {
		t.Errorf("%s: exit code %d:\n%.3000s", arguments, code, output)
	}
	return string(output)
}
