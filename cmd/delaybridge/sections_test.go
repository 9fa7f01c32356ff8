package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/settings"
)

// ofSection parses a command line of bridge or consume, and returns one of its flags as it is then.
func ofSection(t *testing.T, env map[string]string, command, flag string, args ...string) (*pflag.Flag, error) {
	t.Helper()
	s := cli.NewSettings(func(name string) (string, bool) { text, ok := env[name]; return text, ok })
	root := newRootCommand(&cli.App{Settings: s})
	cmd, _, err := root.Find([]string{command})
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return cmd.Flags().Lookup(flag), cmd.PersistentPreRunE(cmd, nil)
}

// TestPrecedenceOfSections tries every flag of bridge and consume in every combination of sources.
func TestPrecedenceOfSections(t *testing.T) {
	t.Parallel()
	byType := map[string][3]string{ // by flag, environment, file
		"duration": {"1h", "2h", "3h"}, "int": {"1", "2", "3"}, "float64": {"0.1", "0.2", "0.3"}, "bool": {"false", "true", "false"},
		"string": {"flag", "env", "file"}, "stringArray": {"flag", "env", "file"},
	}
	for _, command := range settings.Sections() {
		root := newRootCommand(&cli.App{Settings: cli.NewSettings(func(string) (string, bool) { return "", false })})
		cmd, _, err := root.Find([]string{command})
		if err != nil {
			t.Fatal(err)
		}
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "help" || f.Name == "adopt" {
				return
			}
			t.Run(command+" --"+f.Name, func(t *testing.T) {
				t.Parallel()
				text, ok := byType[f.Value.Type()]
				if !ok {
					t.Fatalf("flags of type %s are not tested", f.Value.Type())
				}
				path := writeFile(t, command+":\n  "+f.Name+": "+text[2]+"\n")
				variable := "DELAYBRIDGE_" + strings.ToUpper(command) + "_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
				for sources := range 8 {
					want, env := f.DefValue, map[string]string{}
					var args []string
					if sources&1 != 0 {
						args, want = append(args, "--config", path), text[2]
					}
					if sources&2 != 0 {
						env[variable], want = text[1], text[1]
					}
					if sources&4 != 0 {
						args, want = append(args, "--"+f.Name+"="+text[0]), text[0]
					}
					if f.Value.Type() == "stringArray" && sources != 0 {
						want = "[" + want + "]"
					}
					got, err := ofSection(t, env, command, f.Name, args...)
					if err != nil || got.Value.String() != want || got.Changed != (sources != 0) {
						t.Errorf("file %v, environment %v, flag %v: got %s (%v), want %s", sources&1 != 0, sources&2 != 0, sources&4 != 0, got.Value, err, want)
					}
				}
			})
		})
	}
}

func TestSections(t *testing.T) {
	t.Parallel()
	path := writeFile(t, "prefix: shop\nbridge:\n  lease: 1m\nconsume:\n  bind: ['a,b', c.#]\n  exec: curl -u me:x http://u:s3cret@h\n")
	if got, err := ofSection(t, nil, "consume", "bind", "--config", path); err != nil || got.Value.String() != `["a,b",c.#]` {
		t.Errorf("a list in a file: got %s (%v)", got.Value, err)
	}
	if got, err := ofSection(t, map[string]string{"DELAYBRIDGE_CONSUME_BIND": "a,c.#"}, "consume", "bind"); err != nil || got.Value.String() != "[a,c.#]" {
		t.Errorf("a list in the environment: got %s (%v)", got.Value, err)
	}
	for name, want := range map[string]settings.Value{
		"prefix":       {Key: "prefix", Value: "shop", Source: "file " + path},
		"bridge.lease": {Key: "bridge.lease", Value: "1m", Source: "file " + path},
		"bridge.name":  {Key: "bridge.name", Value: "b", Source: "environment DELAYBRIDGE_BRIDGE_NAME"},
		"consume.exec": {Key: "consume.exec", Value: "curl -u me:x http://u:xxxxx@h", Source: "file " + path},
	} {
		if got := shown(t, name, map[string]string{"DELAYBRIDGE_BRIDGE_NAME": "b"}, "--config", path); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	for content, want := range map[string]string{
		"bridge:\n  leese: 1m\n":         `bridge: unknown key "leese": use broker-clock-within, `,
		"bridge:\n  adopt: true\n":       `bridge: unknown key "adopt"`, // which is said once, and not at each start
		"bridge:\n  lease: soon\n":       `lease (from file `,
		"bridge:\n  lease: [1m, 2m]\n":   `lease (from file `,
		"bridge:\n  lease: {a: b}\n":     `bridge: lease: want a value or a list of values`,
		"bridge: 1m\n":                   `unknown key "bridge": use amqp-url, `,
		"publish:\n  id: x\n":            `unknown key "publish": use amqp-url, `,
		"bridge:\n  max-in-flight: -1\n": `--max-in-flight -1: must not be negative`,
	} {
		if code, _, stderr := runIn(t, nil, "bridge", "--config", writeFile(t, content)); code != cli.ExitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit code %d, %s, want %s", content, code, stderr, want)
		}
	}
	code, _, stderr := runIn(t, map[string]string{"DELAYBRIDGE_CONSUME_OUTPUT": "yaml"}, "consume", "--queue", "q")
	if code != cli.ExitUsage || !strings.Contains(stderr, `--output "yaml": use table, jsonl`) {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// writeContexts writes the file of contexts, and returns an environment that leads to it.
func writeContexts(t *testing.T, content string, mode os.FileMode) (env map[string]string, path string) {
	t.Helper()
	folder := t.TempDir()
	path = filepath.Join(folder, "delaybridge", "contexts.yaml")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"XDG_CONFIG_HOME": folder}, path
}

const twoContexts = `prod:
  amqp-url: amqp://u:s3cret@prod/
  redis-url: redis://prod/0
  shards: 8
  log-level: warn
staging:
  amqp-url-file: /secrets/amqp
  redis-url-file: /secrets/redis
`

// A context takes the place of the environment and of credentials, so that settings of two installations
// are never mixed; flags go before it.
func TestContexts(t *testing.T) {
	t.Parallel()
	env, _ := writeContexts(t, twoContexts, 0o600)
	env["DELAYBRIDGE_REDIS_URL"], env["DELAYBRIDGE_MANAGEMENT_URL"], env["DELAYBRIDGE_PREFIX"] = "redis://dev/1", "http://dev", "dev"
	env["DELAYBRIDGE_SHARDS"], env["DELAYBRIDGE_TIERS"], env["DELAYBRIDGE_CONNECT_TIMEOUT"], env["DELAYBRIDGE_LOG_LEVEL"] = "2", "1s", "3s", "error"
	env["DELAYBRIDGE_CONFIG"], env["CREDENTIALS_DIRECTORY"] = writeFile(t, "prefix: other\n"), t.TempDir()
	if err := os.WriteFile(filepath.Join(env["CREDENTIALS_DIRECTORY"], "management-url"), []byte("http://credential"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, want := range []settings.Value{
		{Key: "amqp-url", Value: "amqp://u:xxxxx@prod/", Source: "context prod"},
		{Key: "redis-url", Value: "redis://prod/0", Source: "context prod"},
		{Key: "management-url", Value: "", Source: "context prod"},
		{Key: "prefix", Value: "delaybridge", Source: "default"},
		{Key: "tiers", Value: "1s,5s,10s,30s,1m,5m,10m,30m,1h", Source: "default"},
		{Key: "shards", Value: "16", Source: "flag --shards"},
		{Key: "connect-timeout", Value: "3s", Source: "environment DELAYBRIDGE_CONNECT_TIMEOUT"},
		{Key: "log-level", Value: "error", Source: "environment DELAYBRIDGE_LOG_LEVEL"},
	} {
		if got := shown(t, want.Key, env, "--context", "prod", "--shards", "16"); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	env["DELAYBRIDGE_CONTEXT"] = "prod"
	want := settings.Value{Key: "redis-url", Value: "file:///secrets/redis", Source: "context staging"}
	if got := shown(t, "redis-url", env, "--context", "staging"); got != want {
		t.Errorf("the flag goes before the variable: got %+v", got)
	}
	if got := shown(t, "shards", env); got.Value != "8" || got.Source != "context prod" {
		t.Errorf("the variable: got %+v", got)
	}
}

func TestFaultyContexts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		content string
		mode    os.FileMode
		args    []string
		want    string
	}{
		"unknown":        {twoContexts, 0o600, []string{"--context", "prd"}, `flag --context: there is no context "prd" in %s; there are prod, staging`},
		"none":           {"", 0o600, []string{"--context", "prd"}, `flag --context: there is no context "prd" in %s; there are none`},
		"with a file":    {twoContexts, 0o600, []string{"--context", "prod", "--config", "x.yaml"}, "flag --context prod and flag --config exclude each other"},
		"others read it": {twoContexts, 0o644, []string{"--context", "prod"}, "%[1]s: prod: amqp-url may have a password in it, and others may read the file: chmod 600 %[1]s, or put the URL into a file of its own (amqp-url-file)"},
		"no Redis":       {"a:\n  amqp-url: amqp://h/\n", 0o600, []string{"--context", "a"}, "context a has no redis-url: add it, or redis-url-file, or give --redis-url"},
		"unknown key":    {"a:\n  amqp: amqp://u:s3cret@h/\n", 0o600, []string{"--context", "a"}, `%s: a: unknown key "amqp": use amqp-url, `},
		"no settings":    {"a: 1\n", 0o600, []string{"--context", "a"}, "%s: a: want the settings of this context"},
		"not YAML":       {"a: [\n", 0o600, []string{"--context", "a"}, "%s: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, path := writeContexts(t, c.content, c.mode)
			want := c.want
			if strings.Contains(want, "%") {
				want = fmt.Sprintf(want, path)
			}
			code, stdout, stderr := runIn(t, env, append([]string{"config", "show"}, c.args...)...)
			if code != cli.ExitUsage || !strings.Contains(stderr, want) || strings.Contains(stdout+stderr, "s3cret") {
				t.Errorf("exit code %d, %s, want %s", code, stderr, want)
			}
		})
	}
	env, _ := writeContexts(t, twoContexts, 0o644)
	if got := shown(t, "amqp-url", env, "--context", "staging"); got.Value != "file:///secrets/amqp" {
		t.Errorf("others may read where secrets are: got %+v", got)
	}
	if code, stdout, _ := runIn(t, map[string]string{"XDG_CONFIG_HOME": t.TempDir()}, "context", "list", "-o", "json"); code != cli.ExitOK || stdout != "[]\n" {
		t.Errorf("without a file: exit code %d, %s", code, stdout)
	}
}
