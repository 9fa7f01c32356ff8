package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// patience is how long a test waits for what takes seconds on a quiet machine.
const patience = 2 * time.Minute

// machine is one on which a package is installed.
type machine struct {
	t      *testing.T
	prefix string // of the installation, so that two machines can share servers
	// within is put before each command, to run it there as root; nothing runs it here.
	within []string
	// deb returns the path of a release's package on the machine.
	deb func(version string) string
	// start starts the service, and returns once it is ready.
	start func()
	// stop stops it, and fails where it does not end in order.
	stop func()
	// running reports whether it runs.
	running func() bool
	// upgraded is called after an upgrade: it sees to it that the service runs as that release.
	upgraded func()
}

func (m *machine) command(args ...string) *exec.Cmd {
	args = append(append([]string(nil), m.within...), args...)
	return exec.Command(args[0], args[1:]...)
}

// do runs a command, which has to succeed, and returns its output.
func (m *machine) do(args ...string) string {
	m.t.Helper()
	return outputOf(m.t, m.command(args...))
}

// delaybridge runs the installed program with the settings of the service, as an administrator does.
func (m *machine) delaybridge(args ...string) string {
	m.t.Helper()
	return m.do(append([]string{"delaybridge"}, m.with(args...)...)...)
}

func (m *machine) with(args ...string) []string {
	const etc = "/etc/delaybridge/"
	return append(args, "--config", etc+"settings.yaml", "--amqp-url-file", etc+"amqp-url", "--redis-url-file", etc+"redis-url", "--management-url-file", etc+"management-url")
}

func (m *machine) install(version string) {
	m.t.Helper()
	m.do("apt-get", "install", "--yes", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", m.deb(version))
	want := fmt.Sprintf(`{"version":"v%s","commit":`, version)
	got := m.do("delaybridge", "--version", "-o", "json")
	if !strings.HasPrefix(got, want) || !strings.Contains(got, `"date":"`+date+`"`) {
		m.t.Errorf("after the installation of %s, delaybridge says it is %s", version, got)
	}
}

// write replaces a file, and leaves owner and mode.
func (m *machine) write(path, text string) {
	m.t.Helper()
	cmd := m.command("tee", path)
	cmd.Stdin = strings.NewReader(text)
	if err := said(cmd); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) exists(path string) bool { return m.command("test", "-e", path).Run() == nil }

// delivered publishes a message and receives it.
func (m *machine) delivered(id string) {
	m.t.Helper()
	// 1.7 s equals no tier: the bridge has to take part.
	m.delaybridge("publish", "--id", id, "--key", "order.unpaid", "--in", "1.7s")
	m.received(id)
}

// received takes the next message, which has to be this one.
func (m *machine) received(id string) {
	m.t.Helper()
	if got := m.delaybridge("consume", "--queue", m.prefix+"-orders", "--count", "1", "--timeout", "2m"); !strings.Contains(got, id) {
		m.t.Errorf("received %q, want %s", got, id)
	}
}

// life is that of an installation: install, configure, start, publish, receive, upgrade, remove, purge.
func (m *machine) life() {
	t := m.t
	m.install(first)
	if m.running() {
		t.Error("the bridge runs before anybody has said where its servers are")
	}
	for path, want := range map[string]string{
		"/etc/delaybridge": "root:delaybridge 750", "/etc/delaybridge/settings.yaml": "root:delaybridge 640",
		"/etc/delaybridge/amqp-url": "root:root 600", "/etc/delaybridge/redis-url": "root:root 600", "/etc/delaybridge/management-url": "root:root 600",
		"/usr/bin/delaybridge": "root:root 755", "/usr/lib/systemd/system/delaybridge.service": "root:root 644",
		"/usr/share/doc/delaybridge/THIRD-PARTY-NOTICES.txt": "root:root 644", "/usr/share/doc/delaybridge/sbom.cdx.json": "root:root 644",
	} {
		if got := strings.TrimSpace(m.do("stat", "--format", "%U:%G %a", path)); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	m.do("gzip", "--test", "/usr/share/man/man1/delaybridge.1.gz", "/usr/share/man/man1/delaybridge-bridge.1.gz")
	if got := m.do("bash", "-c", "source /usr/share/bash-completion/completions/delaybridge && complete -p delaybridge"); !strings.Contains(got, "delaybridge") {
		t.Errorf("bash completes: %s", got)
	}

	m.write("/etc/delaybridge/amqp-url", needed(t, "DELAYBRIDGE_TEST_AMQP_URL")+"\n")
	m.write("/etc/delaybridge/management-url", needed(t, "DELAYBRIDGE_TEST_MANAGEMENT_URL")+"\n")
	m.write("/etc/delaybridge/redis-url", needed(t, "DELAYBRIDGE_TEST_REDIS_URL")+"\n")
	settings := "prefix: " + m.prefix + "\n"
	m.write("/etc/delaybridge/settings.yaml", settings)
	m.start()
	m.do("delaybridge", "probe")
	m.delaybridge("topology", "verify")
	m.bind()
	m.delivered("order-1")

	m.delaybridge("publish", "--id", "order-2", "--key", "order.unpaid", "--in", "8s")
	m.install(second)
	m.upgraded()
	if got := m.do("delaybridge", "probe", "http://127.0.0.1:9464/metrics"); !strings.Contains(got, `version="v`+second+`"`) {
		t.Error("the bridge that runs is not of the new release")
	}
	if got := m.do("cat", "/etc/delaybridge/settings.yaml"); got != settings {
		t.Errorf("after the upgrade the settings are %q, want %q", got, settings)
	}
	m.received("order-2")
	m.delivered("order-3")

	// With systemd, removing it stops the service.
	if len(m.within) == 0 {
		m.stop()
	}
	m.do("apt-get", "remove", "--yes", "delaybridge")
	if m.running() {
		t.Error("the bridge runs after its package was removed")
	}
	if m.exists("/usr/bin/delaybridge") || !m.exists("/etc/delaybridge/settings.yaml") {
		t.Error("removing leaves the program, or takes the configuration away")
	}
	m.do("apt-get", "purge", "--yes", "delaybridge")
	if m.exists("/etc/delaybridge") {
		t.Errorf("purging leaves %s", m.do("ls", "-la", "/etc/delaybridge"))
	}
}

// bind makes the queue that messages are received from: what is due before goes elsewhere.
func (m *machine) bind() {
	m.t.Helper()
	cmd := m.command(append([]string{"delaybridge"}, m.with("consume", "--queue", m.prefix+"-orders", "--bind", "order.*",
		"--count", "1", "--timeout", "2m", "--metrics-addr", "127.0.0.1:9465")...)...)
	ended := make(chan error, 1)
	go func() { ended <- said(cmd) }()
	until(m.t, "the consumer is ready", func() error { return said(m.command("delaybridge", "probe", "http://127.0.0.1:9465")) })
	m.delaybridge("publish", "--key", "order.bound")
	if err := <-ended; err != nil {
		m.t.Fatal(err)
	}
}

// needed is a variable that devservers sets.
func needed(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set: run make release-test, which starts the servers", name)
	}
	return value
}

// until waits for a state.
func until(t *testing.T, state string, ask func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err = ask(); err == nil {
			return
		}
	}
	t.Fatalf("waiting until %s: %v", state, err)
}
