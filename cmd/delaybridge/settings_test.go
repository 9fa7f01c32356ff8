package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/defaults"
	"github.com/delaybridge/delaybridge/internal/settings"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// runIn runs the program in this process, with these variables and no others.
func runIn(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	lookup := func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}
	var out, said bytes.Buffer
	code = run(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &said}, lookup)
	return code, out.String(), said.String()
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// shown returns what `config show` says about one setting.
func shown(t *testing.T, key string, env map[string]string, args ...string) settings.Value {
	t.Helper()
	code, stdout, stderr := runIn(t, env, append([]string{"config", "show", "-o", "json"}, args...)...)
	if code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var values []settings.Value
	if err := json.Unmarshal([]byte(stdout), &values); err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		if v.Key == key {
			return v
		}
	}
	t.Fatalf("no setting %s in %s", key, stdout)
	return settings.Value{}
}

// TestPrecedence tries every setting in every combination of sources.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	texts := map[string][3]string{ // by flag, environment, file
		"amqp-url":        {"amqp://flag", "amqp://env", "amqp://file"},
		"management-url":  {"http://flag", "http://env", "http://file"},
		"redis-url":       {"redis://flag", "redis://env", "redis://file"},
		"prefix":          {"flag", "env", "file"},
		"tiers":           {"1s,2s", "3s", "4s,5s"},
		"lead":            {"1m", "2m", "3m"},
		"shards":          {"1", "2", "3"},
		"entries":         {"a=direct,b=fanout", "c=topic+tracked", "d=headers"},
		"default-entry":   {"topic+tracked", "topic", "topic+tracked"},
		"quotas":          {"a=messages:1", "b=body:1KiB", "c=delay:30d"},
		"default-quota":   {"bytes:1GB", "messages:1+delay:1h", "body:10"},
		"dedupe-window":   {"1h", "2h", "1d"},
		"remember":        {"1h", "2h", "1d"},
		"tombstones":      {"2d", "36h", "3d"},
		"connect-timeout": {"1s", "2s", "3s"},

		"quarantine-retention": {"30d", "12h", "1y"},
		"unrouted-retention":   {"7d", "1h30m", "2w"},
		"redis-wait-replicas":  {"1", "0", "2"},
		"log-level":            {"debug", "warn", "error"},
		"log-format":           {"json", "text", "json"},
	}
	for _, s := range settings.All() {
		t.Run(s.Key, func(t *testing.T) {
			t.Parallel()
			text, ok := texts[s.Key]
			if !ok {
				t.Fatal("this setting is not tested")
			}
			path := writeFile(t, s.Key+": "+text[2]+"\n")
			for sources := range 8 {
				want := settings.Value{Key: s.Key, Value: s.Default, Source: "default"}
				var args []string
				env := map[string]string{}
				if sources&1 != 0 {
					args = append(args, "--config", path)
					want = settings.Value{Key: s.Key, Value: text[2], Source: "file " + path}
				}
				if sources&2 != 0 {
					env[s.Env()] = text[1]
					want = settings.Value{Key: s.Key, Value: text[1], Source: "environment " + s.Env()}
				}
				if sources&4 != 0 {
					args = append(args, "--"+s.Key, text[0])
					want = settings.Value{Key: s.Key, Value: text[0], Source: "flag --" + s.Key}
				}
				want.Value = strings.Replace(want.Value, "guest:guest", "guest:xxxxx", 1)
				if got := shown(t, s.Key, env, args...); got != want {
					t.Errorf("flag %v, environment %v, file %v: got %+v, want %+v", sources&4 != 0, sources&2 != 0, sources&1 != 0, got, want)
				}
			}
		})
	}
}

func TestSettingsFile(t *testing.T) {
	t.Parallel()
	path := writeFile(t, "tiers:\n  - 1s\n  - 1m30s\nshards: 8\n")
	env := map[string]string{"DELAYBRIDGE_CONFIG": path}
	if got := shown(t, "tiers", env); got.Value != "1s,1m30s" {
		t.Errorf("a list: got %+v", got)
	}
	if got := shown(t, "entries", env, "--config", writeFile(t, "entries: [orders=direct, audit=fanout]")); got.Value != "orders=direct,audit=fanout" {
		t.Errorf("entries: got %+v", got)
	}
	if got := shown(t, "shards", env, "--config", writeFile(t, "shards: 2")); got.Value != "2" {
		t.Errorf("--config goes before the environment: got %+v", got)
	}
	for name, c := range map[string]struct {
		content string
		want    string
	}{
		"unknown key":    {"shard: 8\n", `unknown key "shard": use amqp-url, management-url, `},
		"nested value":   {"tiers:\n  a: 1s\n", "tiers: want a value or a list of values"},
		"empty value":    {"prefix:\n", "prefix: want a value or a list of values"},
		"not YAML":       {"a: [\n", "settings.yaml"},
		"not an object":  {"- a\n", "settings.yaml"},
		"the same twice": {"prefix: a\nprefix: b\n", "settings.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := runIn(t, nil, "config", "show", "--config", writeFile(t, c.content))
			if code != cli.ExitUsage || !strings.Contains(stderr, c.want) || stdout != "" {
				t.Errorf("exit code %d, %q, want %d and %q", code, stderr, cli.ExitUsage, c.want)
			}
		})
	}
	if code, _, stderr := runIn(t, map[string]string{"DELAYBRIDGE_CONFIG": "/no/such.yaml"}, "config", "show"); code != cli.ExitUsage ||
		!strings.Contains(stderr, "environment DELAYBRIDGE_CONFIG: open /no/such.yaml") {
		t.Errorf("a file that is not there: exit code %d, %s", code, stderr)
	}
}

func TestConfigShowKeepsSecrets(t *testing.T) {
	t.Parallel()
	env := map[string]string{
		"DELAYBRIDGE_AMQP_URL":       "amqp://u:s3cret@h/v",
		"DELAYBRIDGE_MANAGEMENT_URL": "http://u:s3cret@h",
		"DELAYBRIDGE_REDIS_URL":      "redis://:s3cret@h?master_name=m&password=s3cret",
	}
	for _, format := range []string{cli.FormatTable, cli.FormatJSON, cli.FormatJSONL} {
		code, stdout, stderr := runIn(t, env, "config", "show", "-o", format)
		if code != cli.ExitOK || strings.Contains(stdout+stderr, "s3cret") || strings.Count(stdout, "xxxxx@h") != 3 {
			t.Errorf("-o %s: exit code %d\n%s%s", format, code, stdout, stderr)
		}
	}
}

// TestEveryFaultyValueIsNamed makes all mistakes at once.
func TestEveryFaultyValueIsNamed(t *testing.T) {
	t.Parallel()
	s := cli.NewSettings(func(name string) (string, bool) {
		value, ok := map[string]string{
			"DELAYBRIDGE_TIERS":           "1s,x",
			"DELAYBRIDGE_LEAD":            "",
			"DELAYBRIDGE_SHARDS":          "many",
			"DELAYBRIDGE_ENTRIES":         "orders,=fanout,audit=fanout",
			"DELAYBRIDGE_CONNECT_TIMEOUT": "1",
			"DELAYBRIDGE_DEDUPE_WINDOW":   "-1s",
			"DELAYBRIDGE_REMEMBER":        "0s",
			"DELAYBRIDGE_TOMBSTONES":      "-1h",
			"DELAYBRIDGE_LOG_LEVEL":       "loud",
			"DELAYBRIDGE_LOG_FORMAT":      "xml",
			"DELAYBRIDGE_AMQP_URL":        "amqp://u:s3c ret@h/",
			"DELAYBRIDGE_MANAGEMENT_URL":  "http://u:s3cret@h:port",
			"DELAYBRIDGE_REDIS_URL":       "redis://:s3cret%zz@h/0",

			"DELAYBRIDGE_REDIS_WAIT_REPLICAS":  "all",
			"DELAYBRIDGE_QUARANTINE_RETENTION": "-1h",
			"DELAYBRIDGE_UNROUTED_RETENTION":   "for ever",
		}[name]
		return value, ok
	})
	newRootCommand(&cli.App{Settings: s})
	_, err := s.Config()
	if cli.ExitCode(t.Context(), err) != cli.ExitUsage {
		t.Fatalf("got %v, want a usage error", err)
	}
	for _, want := range []string{
		`tiers (from environment DELAYBRIDGE_TIERS): "x" is not a duration`, `lead (from environment DELAYBRIDGE_LEAD): "" is not a duration`,
		`shards (from environment DELAYBRIDGE_SHARDS): "many" is not a number`, `connect-timeout (from environment DELAYBRIDGE_CONNECT_TIMEOUT): "1"`,
		`entries (from environment DELAYBRIDGE_ENTRIES): "orders": write NAME=TYPE, such as orders=direct`, `"=fanout": write NAME=TYPE`,
		`dedupe-window (from environment DELAYBRIDGE_DEDUPE_WINDOW): "-1s": must not be negative`,
		`remember (from environment DELAYBRIDGE_REMEMBER): "0s": must be longer than 0`,
		`tombstones (from environment DELAYBRIDGE_TOMBSTONES): "-1h": must be longer than 0`,
		`redis-wait-replicas (from environment DELAYBRIDGE_REDIS_WAIT_REPLICAS): "all": use 0, or the number of replicas of each primary`,
		`quarantine-retention (from environment DELAYBRIDGE_QUARANTINE_RETENTION): "-1h": must not be negative; 0s is for ever`,
		`unrouted-retention (from environment DELAYBRIDGE_UNROUTED_RETENTION): "for ever" is not a duration`,
		`"loud": use debug, info, warn or error`, `"xml": use text or json`,
		"amqp-url (from environment DELAYBRIDGE_AMQP_URL): it is no URL", "management-url (from environment DELAYBRIDGE_MANAGEMENT_URL): it is no URL",
		"redis-url (from environment DELAYBRIDGE_REDIS_URL): it is no URL: a port is a number, and in user and password write % as %25",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "s3c") {
		t.Errorf("a password is in %q", err)
	}
}

func TestEntriesSetting(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "[]", " ": "[]", "orders=direct": "[{orders direct false}]",
		"orders=direct+tracked":       "[{orders direct true}]",
		"orders=direct, audit=fanout": "[{audit fanout false} {orders direct false}]",
	} {
		s := cli.NewSettings(func(name string) (string, bool) { return text, name == "DELAYBRIDGE_ENTRIES" })
		newRootCommand(&cli.App{Settings: s})
		c, err := s.Config()
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := fmt.Sprint(c.Topology.Entries()); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	code, _, stderr := runIn(t, nil, "topology", "plan", "--default-entry", "direct+tracked")
	if code != cli.ExitUsage || !strings.Contains(stderr, `default-entry (from flag --default-entry): "direct+tracked": use topic or topic+tracked`) {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	s := cli.NewSettings(func(name string) (string, bool) { return "topic+tracked", name == "DELAYBRIDGE_DEFAULT_ENTRY" })
	newRootCommand(&cli.App{Settings: s})
	if c, err := s.Config(); err != nil || !c.Topology.IsTracked("") {
		t.Errorf("the default entry is not tracked (%v)", err)
	}
	code, _, stderr = runIn(t, nil, "topology", "plan", "--entries", "a=direct,a=fanout,b=x-delayed-message")
	if code != cli.ExitUsage || !strings.Contains(stderr, `entry "a" is listed twice`) || !strings.Contains(stderr, `entry "b": type "x-delayed-message"`) {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

func TestQuotasSetting(t *testing.T) {
	t.Parallel()
	read := func(quotas, standard string) (map[string]redisbridge.Quota, error) {
		env := map[string]string{"DELAYBRIDGE_QUOTAS": quotas, "DELAYBRIDGE_DEFAULT_QUOTA": standard, "DELAYBRIDGE_ENTRIES": "orders=direct,audit=fanout"}
		s := cli.NewSettings(func(name string) (string, bool) { text, ok := env[name]; return text, ok })
		newRootCommand(&cli.App{Settings: s})
		c, err := s.Config()
		return c.Quotas, err
	}
	got, err := read("orders=messages:50000+bytes:1GiB+delay:30d+body:64KiB, audit=body:100", "messages:7")
	want := map[string]redisbridge.Quota{
		"orders": {Messages: 50000, Bytes: 1 << 30, Delay: 720 * time.Hour, Body: 64 << 10}, "audit": {Body: 100}, "": {Messages: 7},
	}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for text, says := range map[string]string{
		"orders":                           `"orders": write NAME=LIMIT+LIMIT, such as orders=messages:50000+body:64KiB`,
		"=body:1":                          `"=body:1": write NAME=LIMIT+LIMIT`,
		"orders=size:1":                    `"size:1": use messages:N, bytes:SIZE, delay:DURATION or body:SIZE`,
		"orders=messages:many":             `"messages:many": it is no number`,
		"orders=messages:0":                `"messages:0": it must be more than 0; leave out a limit that there is not to be`,
		"orders=messages:-1":               `"messages:-1": it must be more than 0`,
		"orders=delay:0s":                  `"delay:0s": it must be more than 0`,
		"orders=body:1XB":                  `"body:1XB": it is no size: write 4096, 64KiB or 1GiB`,
		"orders=body:99EiB":                `"body:99EiB": it is no size`,
		"orders=delay:soon":                `"delay:soon": "soon" is not a duration`,
		"orders=body:1,orders=delay:1h":    `entry "orders" is listed twice`,
		"ordres=body:1":                    `quotas: there is no entry "ordres": list it in entries, or leave it out`,
		"orders=messages:1+messages:2":     `"messages:2": there is a limit of messages already`,
		"orders=body:1,audit,audit=body:1": `"audit": write NAME=LIMIT+LIMIT`,
	} {
		if _, err := read(text, ""); cli.ExitCode(t.Context(), err) != cli.ExitUsage || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

func TestDefaultsAreTheTopologys(t *testing.T) {
	t.Parallel()
	s := cli.NewSettings(func(string) (string, bool) { return "", false })
	newRootCommand(&cli.App{Settings: s})
	c, err := s.Config()
	if err != nil {
		t.Fatal(err)
	}
	want, err := topology.New(topology.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Topology; got.Prefix() != want.Prefix() || got.Shards() != want.Shards() || len(got.Leads()) != len(want.Leads()) || len(got.Tiers()) != len(want.Tiers()) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if c.ConnectTimeout != 15*time.Second || c.DedupeWindow != 0 || c.Remember != defaults.Remember {
		t.Errorf("connect timeout %v, dedupe window %v, remember %v", c.ConnectTimeout, c.DedupeWindow, c.Remember)
	}
}
