package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// secret is the password in every URL of these tests, or a part of it. It is written in
// several ways.
const secret = "s3cr3t"

// The ways in which people write the URLs of servers that refuse, right and wrong.
func amqpForms() []string {
	return []string{
		"amqp://user:s3cr3t@127.0.0.1:1/vhost",
		"amqp://:s3cr3t@127.0.0.1:1",
		"amqps://user:s3cr3t@127.0.0.1:1/",
		"amqps://user:s3cr3t@127.0.0.1:1/?cacertfile=/no/such/file&heartbeat=1",
		"amqp://user:a%2Fs3cr3t%40%3A@127.0.0.1:1/%2F",
		"amqp://user:a@s3cr3t@127.0.0.1:1/",
		"amqp://user:a:s3cr3t@127.0.0.1:1/",
		"amqp://user:%73%33cr3t@127.0.0.1:1/",
		"amqp://user:12/s3cr3t@127.0.0.1:1/", // a slash ends the host, which is user:12
		"amqp://user:12?s3cr3t@127.0.0.1:1/",
		"amqp://user:12#s3cr3t@127.0.0.1:1/",
		"amqp://user:s3cr3t/@127.0.0.1:1/",
		"amqp://user:s3cr3t @127.0.0.1:1/",
		"amqp://user:s3cr3t%zz@127.0.0.1:1/",
		"amqp://user:s3cr3t@127.0.0.1:port/",
		"amqp://user:s3cr3t@[::1/",
		"http://user:s3cr3t@127.0.0.1:1/",
		"amqp:user:s3cr3t@127.0.0.1:1",
		"user:s3cr3t@127.0.0.1:1",
		"//user:s3cr3t@127.0.0.1:1",
		"amqp://127.0.0.1:1/?password=s3cr3t",
		"amqp://127.0.0.1:1/?pw=s3cr3t",
		"amqp://user:s3cr3t@127.0.0.1:1/\nx",
	}
}

func redisForms() []string {
	return []string{
		"redis://user:s3cr3t@127.0.0.1:1/0",
		"redis://:s3cr3t@127.0.0.1:1",
		"redis://s3cr3t@127.0.0.1:1/0",
		"rediss://:s3cr3t@127.0.0.1:1",
		"redis://user:a%2Fs3cr3t%40@127.0.0.1:1/0",
		"redis://user:%73%33cr3t@127.0.0.1:1/x",
		"redis://:12/s3cr3t@127.0.0.1:1",
		"redis://:12?s3cr3t@127.0.0.1:1",
		"redis://:12#s3cr3t@127.0.0.1:1",
		"redis://user:s3cr3t@127.0.0.1:1/x",
		"redis://user:s3cr3t@127.0.0.1:port/0",
		"redis://user:s3cr3t@127.0.0.1:1?db=s3cr3t",
		"redis://user:s3cr3t@127.0.0.1:1?no_such_option=s3cr3t",
		"redis://127.0.0.1:1?password=s3cr3t",
		"redis://127.0.0.1:1?Password=s3cr3t",
		"redis://user:s3cr3t@127.0.0.1:1?addr=127.0.0.1:2&addr=127.0.0.1:3",
		"redis://127.0.0.1:1?addr=user:s3cr3t@127.0.0.1:2",
		"redis://sentinel:s3cr3t@127.0.0.1:1/0?master_name=orders&addr=127.0.0.1:2&username=user&password=s3cr3t",
		"redis://127.0.0.1:1/0?master_name=orders&password=s%33cr3t%26",
		"redis://127.0.0.1:1/0?master_name=&password=s3cr3t",
		"unix://user:s3cr3t@/no/such/socket?db=0",
		"redis:user:s3cr3t@127.0.0.1:1",
		"127.0.0.1:1?password=s3cr3t",
		"postgres://user:s3cr3t@127.0.0.1:1/orders?sslmode=disable",
		"user:s3cr3t@tcp(127.0.0.1:1)/orders",
		"host=127.0.0.1 port=1 user=user password=s3cr3t",
	}
}

func managementForms() []string {
	return []string{
		"http://user:s3cr3t@127.0.0.1:1",
		"https://user:s3cr3t@127.0.0.1:1/prefix/",
		"http://user:a%2Fs3cr3t@127.0.0.1:1",
		"http://user:12/s3cr3t@127.0.0.1:1",
		"http://user:12#s3cr3t@127.0.0.1:1",
		"http://user:s3cr3t@127.0.0.1:port",
		"http://127.0.0.1:1/?password=s3cr3t",
		"amqp://user:s3cr3t@127.0.0.1:1",
		"http:user:s3cr3t@127.0.0.1:1",
		"user:s3cr3t@127.0.0.1:1",
	}
}

// No command says a password, whatever is wrong with the URL it is in, or with the server:
// not in its errors, nor in its logs at any level, nor in its settings.
func TestNoSecretIsSaid(t *testing.T) {
	t.Parallel()
	all, say := t, newSayings(t)
	const refuses = "127.0.0.1:1"
	for _, of := range []struct {
		setting  string
		forms    []string
		commands []string
	}{
		{"amqp-url", amqpForms(), []string{
			"consume --queue q --without-redis", "publish --id o-1 --key k --in 30s --timeout 200ms", "topology plan", "quarantine list", "migrate",
		}},
		{"redis-url", redisForms(), []string{
			"consume --queue q", "publish --id o-1 --key k --in 45s --timeout 200ms", "cancel o-1", "reschedule o-1 --in 1s", "list", "get o-1",
		}},
		{"management-url", managementForms(), []string{"topology verify", "stats", "migrate"}},
	} {
		for n, form := range of.forms {
			t.Run(of.setting+" "+form, func(t *testing.T) {
				t.Parallel()
				urls := map[string]string{
					"amqp-url": "amqp://" + refuses, "redis-url": "redis://" + refuses, "management-url": "http://" + refuses,
					of.setting: form,
				}
				for i, command := range []string{"bridge", "config show -o json", of.commands[n%len(of.commands)], "bridge"} {
					logFormat := []string{"text", "json"}[(i+n/len(of.commands))%2]
					arguments := append(strings.Fields(command), "--connect-timeout", "100ms", "--log-level", "debug", "--log-format", logFormat)
					for setting, value := range urls {
						if i == 3 {
							setting, value = setting+"-file", secretFile(all, setting, value, 0o600) // t's directory has the secret in its name
						}
						arguments = append(arguments, "--"+setting+"="+value)
					}
					said := say.by(t, nil, arguments...)
					if logFormat == "json" && command == "bridge" {
						isJSON(t, said)
					}
				}
			})
		}
	}
}

// Nor does a command line that is wrong, a file that cannot be read, or a variable of
// OpenTelemetry's.
func TestNoSecretIsQuoted(t *testing.T) {
	t.Parallel()
	say := newSayings(t)
	const url = "amqp://user:s3cr3t@127.0.0.1:1"
	for _, arguments := range [][]string{
		{url},
		{"bridge", url},
		{"topology", url},
		{"bridge", "-amqp-url=" + url},
		{"bridge", "--amqpurl=" + url},
		{"bridge", "--lease", url},
		{"bridge", "--tiers=" + url},
		{"bridge", "--prefix=" + url},
		{"bridge", "--log-level=" + url},
		{"bridge", "--entries=" + url},
		{"consume", "--queue=q", "--order-by", url},
		{"publish", "--id", "o-1", "--key", "k", "--in", url},
		{"bridge", "--config", writeFile(t, "amqp-url: "+url+"\n bad indent: [\n")},
		{"bridge", "--config", writeFile(t, "amqp-url="+url+"\n")},
		{"bridge", "--config", writeFile(t, url+": x\n")},
		{"bridge", "--config", writeFile(t, "amqp-url: "+url+"\namqp-url: "+url+"\n")},
		{"bridge", "--config", writeFile(t, "amqp-url: ['"+url+"', {a: '"+url+"'}]\n")},
	} {
		say.by(t, nil, append(arguments, "--log-level=debug", "--connect-timeout=100ms")...)
	}
	servers := []string{"--connect-timeout=100ms", "--log-level=debug", "--amqp-url=amqp://127.0.0.1:1", "--redis-url=redis://127.0.0.1:1"}
	for _, env := range []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://user:s3cr3t@127.0.0.1:1",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://user:s3cr3t@127.0.0.1:port",
		"OTEL_EXPORTER_OTLP_ENDPOINT=user:s3cr3t@127.0.0.1:1",
		"OTEL_EXPORTER_OTLP_HEADERS=api-key=s3cr3t",
		"OTEL_EXPORTER_OTLP_HEADERS=s3cr3t",
		"OTEL_EXPORTER_OTLP_HEADERS=api-key=s3cr3t%zz",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:1/?token=s3cr3t",
	} {
		for _, protocol := range []string{"grpc", "http/protobuf"} {
			say.by(t, []string{"OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_PROTOCOL=" + protocol, env},
				append([]string{"publish", "--id=o-1", "--key=k", "--in=30s", "--timeout=100ms"}, servers...)...)
		}
	}
}

// sayings run the program and look at all that it says.
type sayings struct {
	program string
	slots   chan struct{}
}

func newSayings(t *testing.T) *sayings {
	t.Helper()
	return &sayings{filepath.Join(program(t), "delaybridge"), make(chan struct{}, 4)}
}

// by returns what a command says, which fails in due course and keeps the secret.
func (s *sayings) by(t *testing.T, env []string, arguments ...string) string {
	t.Helper()
	s.slots <- struct{}{}
	defer func() { <-s.slots }()
	cmd := exec.CommandContext(t.Context(), s.program, arguments...)
	cmd.Env = append(append(os.Environ(), beDelaybridge+"=1", "GORACE=atexit_sleep_ms=0"), env...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case len(out) == 0 || err != nil && !errors.As(err, &exit):
		t.Errorf("%q: said %q, and ended with %v", arguments, out, err)
	case err == nil && arguments[0] != "config" && arguments[0] != "stats":
		t.Errorf("%q: succeeded, want a failure", arguments)
	case exit != nil && (exit.ExitCode() < 1 || exit.ExitCode() > 4):
		t.Errorf("%q: exit code %d\n%s", arguments, exit.ExitCode(), out)
	}
	if said := string(out); strings.Contains(strings.ToLower(said), secret) || strings.Contains(said, "%73%33cr3t") || strings.Contains(said, "%33cr3t") {
		t.Errorf("%q says the secret:\n%s", arguments, said)
	}
	return string(out)
}

// isJSON checks that each line is an object, but the last words, which are for people.
func isJSON(t *testing.T, said string) {
	t.Helper()
	logged, _, _ := strings.Cut("\n"+said, "\ndelaybridge: ")
	for line := range strings.Lines(strings.TrimPrefix(logged, "\n")) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Errorf("no JSON: %s", fmt.Sprintf("%.200q", line))
		}
	}
}
