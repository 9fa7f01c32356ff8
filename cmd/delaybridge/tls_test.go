package main

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/private"
	"github.com/delaybridge/delaybridge/internal/servers/rabbitmq"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/internal/tlsurl"
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
		e.vars[name] = with(t, u.String(), "cacertfile", e.trusted.File, "certfile", clientCert, "keyfile", clientKey)
		cuts = append(cuts, cut)
	}
	e.cut = func() {
		for _, cut := range cuts {
			cut()
		}
	}
	return e
}

// with returns a URL with other parameters in its query.
func with(t *testing.T, rawURL string, parameters ...string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	for i := 0; i < len(parameters); i += 2 {
		query.Set(parameters[i], parameters[i+1])
	}
	u.RawQuery = query.Encode()
	return u.String()
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

// trip has a message parked, rescheduled, promoted and consumed. The queue has the name of its ID.
func (e *encrypted) trip(t *testing.T, id string) {
	t.Helper()
	consume := startServing(t, e.vars, nil, "consume", "--queue", id, "--bind", "#", "--count", "1")
	consume.awaitReady(t)
	e.run(t, cli.ExitOK, "publish", "--id", id, "--key", "k", "--in", "1h")
	if got := e.run(t, cli.ExitOK, "get", id, "-o", "json"); !strings.Contains(got, `"parked"`) {
		t.Errorf("get %s: %s", id, got)
	}
	e.run(t, cli.ExitOK, "reschedule", id, "--in", "1s")
	await(t, "it is consumed", func() bool { return hasEnded(consume) })
	if got := consume.output.String(); consume.err != nil || !strings.Contains(got, id) {
		t.Errorf("consumed: %v: %s", consume.err, got)
	}
}

// Every command that has a connection makes it over mutual TLS. Certificates are replaced while a bridge
// works; with one that has expired it waits, and says why.
func TestEverythingOverMutualTLS(t *testing.T) {
	t.Parallel()
	e := overTLS(t)
	e.run(t, cli.ExitOK, "topology", "apply")
	bridge := startServing(t, e.vars, nil, "bridge")
	bridge.awaitReady(t)
	e.trip(t, "first")
	for _, arguments := range [][]string{
		{"topology", "verify"}, {"list"}, {"stats"}, {"top", "--once"}, {"quarantine", "list"}, {"migrate"},
	} {
		e.run(t, cli.ExitOK, arguments...)
	}
	for _, seen := range []string{"[ok] topology and policies", "[ok] Redis' version and state"} {
		if got := e.run(t, cli.ExitDrift, "doctor"); !strings.Contains(got, seen) { // there is one bridge, and its user may all
			t.Errorf("doctor does not say %s: %s", seen, got)
		}
	}

	e.serverUntil(t, time.Now().Add(-time.Minute))
	e.cut()
	await(t, "the bridge says why it cannot connect", func() bool {
		code, _ := bridge.get(t, "/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(bridge.output.String(), "certificate has expired")
	})
	if got := e.run(t, cli.ExitUsage, "topology", "apply"); !strings.Contains(got, "certificate has expired") {
		t.Errorf("it says: %s", got)
	}
	e.serverUntil(t, time.Now().Add(time.Hour))
	bridge.awaitReady(t)
	e.trip(t, "second")
	bridge.stop(t, servePatience)
}

// Who is not trusted, or does not trust, is told so, and a wrong setting is named.
func TestMutualTLSRefused(t *testing.T) {
	t.Parallel()
	e := overTLS(t)
	e.run(t, cli.ExitOK, "topology", "apply")
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
			e.vars[name] = with(t, good, parameter, wrong.value)
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
	if code := cmd.ProcessState.ExitCode(); code != cli.ExitUsage && code != cli.ExitUnreachable {
		t.Errorf("%s: exit code %d:\n%.3000s", arguments, code, output)
	}
	return string(output)
}

// A wrong file is reported before any connection is made: no server listens at these addresses.
func TestWrongCertificateFilesAreSaidFirst(t *testing.T) {
	t.Parallel()
	good := scriptEnv(t)
	for _, c := range []struct {
		variable, url string
		commands      []string
	}{
		{"DELAYBRIDGE_AMQP_URL", "amqps://u:s3cr3t@127.0.0.1:1/", []string{"bridge", "topology verify"}},
		{"DELAYBRIDGE_REDIS_URL", "rediss://u:s3cr3t@127.0.0.1:1/0", []string{"bridge", "list"}},
		{"DELAYBRIDGE_MANAGEMENT_URL", "https://u:s3cr3t@127.0.0.1:1", []string{"topology verify"}},
	} {
		e := &encrypted{vars: maps.Clone(good)}
		e.vars["DELAYBRIDGE_CONNECT_TIMEOUT"] = "1s"
		for _, wrong := range [][]string{
			{"cacertfile", "/no/such/file"}, {"certfile", "/no/such/file", "keyfile", "/no/such/file"}, {"keyfile", "/no/such/file"},
		} {
			e.vars[c.variable] = with(t, c.url, wrong...)
			for _, line := range c.commands {
				got := e.run(t, cli.ExitUsage, strings.Fields(line)...)
				if !strings.Contains(got, "wrong TLS settings: ") || !strings.Contains(got, wrong[0]) || strings.Contains(got, "s3cr3t") {
					t.Errorf("%s with %s: it says %s", line, e.vars[c.variable], got)
				}
			}
		}
	}
}

// The servers end TLS themselves. RabbitMQ takes the user from the client's certificate; Redis' nodes are
// announced by the name that is in theirs.
func TestServersEndTLS(t *testing.T) {
	t.Parallel()
	authority, later := servertest.NewAuthority(t), time.Now().Add(time.Hour)
	serverCert, serverKey := authority.Issue(t, "server", later, "localhost")
	bridgeCert, bridgeKey := authority.Issue(t, "bridge", later)
	nobodyCert, nobodyKey := authority.Issue(t, "nobody", later)
	config := servers.Config{Choice: servers.Packages, TLS: &private.TLS{Authority: authority.File, Certificate: serverCert, Key: serverKey}}
	rabbit, err := servers.StartRabbitMQ(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rabbit.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	manage := func(method, path, body string) []byte {
		t.Helper()
		answer, err := rabbitmq.Manage(t.Context(), rabbit.ManagementURL(), method, path, body)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	manage(http.MethodPut, "/api/users/bridge", `{"password_hash":"","tags":""}`) // no password lets it in
	manage(http.MethodPut, "/api/permissions/%2F/bridge", `{"configure":".*","write":".*","read":".*"}`)
	byCertificate := func(rawURL string) string {
		t.Helper()
		return with(t, rawURL, "cacertfile", authority.File, "certfile", bridgeCert, "keyfile", bridgeKey)
	}
	amqpURL, management := rabbit.TLSURLs()
	amqpURL = with(t, byCertificate(amqpURL), "auth_mechanism", "external")
	management = byCertificate(strings.Replace(management, "://", "://guest:guest@", 1))

	for layout, byAddress := range map[servers.Layout][]any{
		servers.Single: nil, servers.Clustered: {"CONFIG", "SET", "cluster-preferred-endpoint-type", "ip"}, servers.Watched: {"SENTINEL", "CONFIG", "SET", "announce-hostnames", "no"},
	} {
		t.Run(string(layout), func(t *testing.T) {
			config := config
			config.RedisLayout = layout
			store, err := servers.StartStore(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := store.Stop(context.Background()); err != nil {
					t.Error(err)
				}
			})
			e := &encrypted{vars: scriptEnv(t)}
			e.vars["DELAYBRIDGE_AMQP_URL"], e.vars["DELAYBRIDGE_MANAGEMENT_URL"], e.vars["DELAYBRIDGE_REDIS_URL"] = amqpURL, management, byCertificate(store.URL())
			e.run(t, cli.ExitOK, "topology", "apply")
			bridge := startServing(t, e.vars, nil, "bridge")
			bridge.awaitReady(t)
			e.trip(t, string(layout))
			if layout == servers.Watched {
				if err := store.Nodes()[0].Kill(t.Context()); err != nil {
					t.Fatal(err)
				}
				await(t, "the replica is promoted", func() bool {
					primaries, err := store.Primaries(t.Context())
					return err == nil && primaries[0] == store.Nodes()[1]
				})
				e.trip(t, "failed over")
			}
			e.run(t, cli.ExitOK, "topology", "verify")
			await(t, "all connections are the bridge's, by its certificate", func() bool {
				var all []struct {
					User      string
					Mechanism string `json:"auth_mechanism"`
					SSL       bool
				}
				if err := json.Unmarshal(manage(http.MethodGet, "/api/connections", ""), &all); err != nil {
					t.Fatal(err)
				}
				for _, c := range all {
					if c.User != "bridge" || c.Mechanism != "EXTERNAL" || !c.SSL {
						return false
					}
				}
				return len(all) > 0
			})
			bridge.stop(t, servePatience)

			const another = "other.example"
			refused := func(says string, arguments ...string) {
				t.Helper()
				if got := e.fails(t, arguments...); !strings.Contains(got, says) {
					t.Errorf("%s: it says %s, want %q", arguments, got, says)
				}
			}
			e.vars["DELAYBRIDGE_CONNECT_TIMEOUT"] = "1s"
			good := e.vars["DELAYBRIDGE_REDIS_URL"]
			e.vars["DELAYBRIDGE_REDIS_URL"] = with(t, good, "server_name_indication", another)
			refused("not "+another, "list")
			if byAddress != nil {
				e.vars["DELAYBRIDGE_REDIS_URL"] = good
				onEach(t, good, byAddress...)
				refused("for 127.0.0.1", "list")
			}
			e.vars["DELAYBRIDGE_AMQP_URL"] = with(t, amqpURL, "server_name_indication", another)
			refused("not "+another, "topology", "apply")
			e.vars["DELAYBRIDGE_AMQP_URL"] = with(t, amqpURL, "certfile", nobodyCert, "keyfile", nobodyKey)
			refused("no user by the name in the client's certificate", "topology", "apply")
		})
	}
}

// onEach sends a command to each server that a URL of Redis names.
func onEach(t *testing.T, rawURL string, arguments ...any) {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	config, err := tlsurl.Config(u.Query(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range append(u.Query()["addr"], u.Host) {
		client := redis.NewClient(&redis.Options{Addr: address, TLSConfig: config})
		if err := errors.Join(client.Do(t.Context(), arguments...).Err(), client.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
