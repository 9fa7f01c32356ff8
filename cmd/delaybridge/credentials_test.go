package main

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/settings"
)

// secretFile writes a file with that mode.
func secretFile(t *testing.T, name, content string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	return path
}

// TestPrecedenceOfFiles tries every URL, and the file that has it, in every combination of
// sources.
func TestPrecedenceOfFiles(t *testing.T) {
	t.Parallel()
	const none, value, inFile, forms = 0, 1, 2, 3
	for _, s := range settings.All() {
		if s.FileKey() == "" {
			continue
		}
		t.Run(s.Key, func(t *testing.T) {
			t.Parallel()
			credentials := secretFile(t, s.Key, "credential", 0o600)
			files := map[string]string{}
			for _, source := range []string{"flag", "environment", "file"} {
				files[source] = secretFile(t, source, source, 0o600)
			}
			yamls := map[int]string{value: writeFile(t, s.Key+": x://file\n"), inFile: writeFile(t, s.FileKey()+": "+files["file"]+"\n")}
			fileEnv := s.Env() + "_FILE"
			for n := range 2 * forms * forms * forms {
				credential, file, env, flag := n%2, n/2%forms, n/2/forms%forms, n/2/forms/forms
				want := settings.Value{Key: s.Key, Value: strings.Replace(s.Default, "guest:guest", "guest:xxxxx", 1), Source: "default"}
				var args []string
				vars := map[string]string{}
				if credential == 1 {
					vars["CREDENTIALS_DIRECTORY"] = filepath.Dir(credentials)
					want.Value, want.Source = "file://"+credentials, "credential "+s.Key
				}
				if file != none {
					args = append(args, "--config", yamls[file])
					want.Value, want.Source = []string{value: "x://file", inFile: "file://" + files["file"]}[file], "file "+yamls[file]
				}
				switch env {
				case value:
					vars[s.Env()] = "x://env"
					want.Value, want.Source = "x://env", "environment "+s.Env()
				case inFile:
					vars[fileEnv] = files["environment"]
					want.Value, want.Source = "file://"+files["environment"], "environment "+fileEnv
				}
				switch flag {
				case value:
					args = append(args, "--"+s.Key, "x://flag")
					want.Value, want.Source = "x://flag", "flag --"+s.Key
				case inFile:
					args = append(args, "--"+s.FileKey(), files["flag"])
					want.Value, want.Source = "file://"+files["flag"], "flag --"+s.FileKey()
				}
				if got := shown(t, s.Key, vars, args...); got != want {
					t.Errorf("credential %v, file %v, environment %v, flag %v: got %+v, want %+v", credential, file, env, flag, got, want)
				}
			}
		})
	}
}

// Whatever is wrong with a file is said with its name and its setting's, at once, and nothing of
// what is in it.
func TestWrongSecretFiles(t *testing.T) {
	t.Parallel()
	const url = "amqp://u:s3cr3t@h"
	empty, two, whole := secretFile(t, "empty", "\n", 0o600), secretFile(t, "two", url+"\n"+url, 0o600), secretFile(t, "whole", url, 0o600)
	broken := secretFile(t, "amqp-url", "", 0o600)
	for name, c := range map[string]struct {
		env  map[string]string
		args []string
		want []string
	}{
		"all at once": {nil, []string{"--amqp-url-file", empty, "--redis-url-file", two, "--management-url-file", "/no/such"}, []string{
			"amqp-url (from flag --amqp-url-file): " + empty + ": it is empty", "redis-url (from flag --redis-url-file): " + two + ": it has more than one line",
			"management-url (from flag --management-url-file): open /no/such: ",
		}},
		"no credential":  {map[string]string{"CREDENTIALS_DIRECTORY": filepath.Dir(broken)}, nil, []string{"amqp-url (from credential amqp-url): " + broken + ": it is empty"}},
		"no name":        {map[string]string{"DELAYBRIDGE_AMQP_URL_FILE": ""}, nil, []string{"amqp-url-file (from environment DELAYBRIDGE_AMQP_URL_FILE) is empty: name a file"}},
		"both flags":     {nil, []string{"--amqp-url", url, "--amqp-url-file", whole}, []string{"amqp-url and amqp-url-file exclude each other", "flag --amqp-url-file", "leave one out"}},
		"both variables": {map[string]string{"DELAYBRIDGE_REDIS_URL": url, "DELAYBRIDGE_REDIS_URL_FILE": whole}, nil, []string{"redis-url and redis-url-file exclude each other", "environment DELAYBRIDGE_REDIS_URL_FILE"}},
		"both keys":      {nil, []string{"--config", writeFile(t, "amqp-url: "+url+"\namqp-url-file: "+whole+"\n")}, []string{"amqp-url and amqp-url-file exclude each other", "settings.yaml"}},
		"no URL":         {nil, []string{"--amqp-url-file", secretFile(t, "no", "u:s3cr3t@h", 0o600)}, []string{"wrong RabbitMQ URL: file:///"}},
		"both databases": {map[string]string{"DELAYBRIDGE_DATABASE_URL": url, "DELAYBRIDGE_DATABASE_URL_FILE": whole}, []string{"relay"}, []string{"database-url and database-url-file exclude each other"}},
		"no database":    {map[string]string{"DELAYBRIDGE_DATABASE_URL_FILE": empty}, []string{"relay"}, []string{"--database-url-file: " + empty + ": it is empty"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := c.args
			if !slices.Contains(args, "relay") {
				args = append([]string{"topology", "plan"}, args...)
			}
			code, stdout, stderr := runIn(t, c.env, args...)
			if code != cli.ExitUsage || stdout != "" || strings.Contains(stderr, "s3cr3t") {
				t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
			}
			for _, want := range c.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("%q does not say %q", stderr, want)
				}
			}
		})
	}
}

// The database's URL is in a file, or a credential, too; a file that others may read is warned
// of once.
func TestDatabaseURLInFile(t *testing.T) {
	t.Parallel()
	url := "sqlite://" + filepath.Join(t.TempDir(), "shop.db") + "\n"
	path := secretFile(t, "database-url", url, 0o640)
	for name, c := range map[string]struct {
		env   map[string]string
		args  []string
		warns int
	}{
		"flag":        {nil, []string{"--database-url-file", path}, 1},
		"environment": {map[string]string{"DELAYBRIDGE_DATABASE_URL_FILE": path}, nil, 1},
		"credential":  {map[string]string{"CREDENTIALS_DIRECTORY": filepath.Dir(path)}, nil, 0},
		"private":     {map[string]string{"DELAYBRIDGE_DATABASE_URL": "oracle://"}, []string{"--database-url-file", secretFile(t, "private", url, 0o400)}, 0},
		"another URL": {nil, []string{"--database-url-file", path, "--redis-url-file", secretFile(t, "redis", "redis://h", 0o604)}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := runIn(t, c.env, append([]string{"relay", "--list-failed"}, c.args...)...)
			if code != cli.ExitOK || !strings.HasPrefix(stdout, "SEQ") {
				t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
			}
			if n := strings.Count(stderr, "others may read a file with a password"); n != c.warns && runtime.GOOS != "windows" {
				t.Errorf("%d warnings, want %d: %s", n, c.warns, stderr)
			}
		})
	}
}

// docs/cli.md lists every setting, and every one whose value can be in a file.
func TestSettingsAreDocumented(t *testing.T) {
	t.Parallel()
	text := read(t, "../../docs/cli.md")
	for _, s := range append(settings.All(), settings.Setting{Key: "database-url"}) {
		if row := "\n| `" + s.Key + "` | `" + s.Env() + "` |"; s.Key != "database-url" && !strings.Contains(text, row) {
			t.Errorf("docs/cli.md lacks the row%s", row)
		}
		if row := "\n| `" + s.FileKey() + "` | `" + s.Env() + "_FILE` | `" + s.Key + "` |"; s.FileKey() != "" && !strings.Contains(text, row) {
			t.Errorf("docs/cli.md lacks the row%s", row)
		}
	}
}
