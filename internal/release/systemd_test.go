package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// systemdImage is a Debian with systemd, which .ci/images builds.
const systemdImage = "delaybridge-ci/systemd:252"

// In a container with systemd, the unit runs as it is, with all that it forbids itself.
func installedUnderSystemd(t *testing.T) {
	published(t, first, ".deb") // fails where there is none
	name := fmt.Sprintf("delaybridge-release-%d", os.Getpid())
	t.Cleanup(func() {
		if t.Failed() {
			logs, _ := exec.Command("docker", "exec", name, "journalctl", "--no-pager", "--lines=60").CombinedOutput()
			t.Logf("%s", logs)
		}
		if err := said(exec.Command("docker", "rm", "--force", "--volumes", name)); err != nil {
			t.Error(err)
		}
	})
	image := cmp.Or(os.Getenv("DELAYBRIDGE_SYSTEMD_IMAGE"), systemdImage)
	if err := said(exec.Command("docker", "image", "inspect", image)); err != nil {
		t.Fatalf("%v: run make images", err)
	}
	err := said(exec.Command("docker", "run", "--detach", "--name", name, "--network", "host",
		"--cap-add", "SYS_ADMIN", "--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined",
		"--cgroupns", "host", "--volume", "/sys/fs/cgroup:/sys/fs/cgroup:rw", "--tmpfs", "/run", "--tmpfs", "/run/lock", image))
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, prefix: fmt.Sprintf("systemd-%d", os.Getpid()), within: []string{"docker", "exec", "--interactive", name}}
	until(t, "systemd has started", func() error {
		out, err := m.command("systemctl", "is-system-running").CombinedOutput()
		if state := strings.TrimSpace(string(out)); state != "running" && state != "degraded" {
			return fmt.Errorf("%s (%w)", state, err)
		}
		return nil
	})
	m.deb = func(version string) string {
		inside := "/root/" + version + ".deb"
		if err := said(exec.Command("docker", "cp", published(t, version, ".deb"), name+":"+inside)); err != nil {
			t.Fatal(err)
		}
		return inside
	}
	m.running = func() bool { return m.command("systemctl", "is-active", "--quiet", "delaybridge").Run() == nil }
	show := func(property string) string {
		return strings.TrimSpace(m.do("systemctl", "show", "--property", property, "--value", "delaybridge"))
	}
	var before string // the process of the first release
	m.start = func() {
		m.do("systemctl", "enable", "--now", "delaybridge")
		if got := show("StatusText"); got != "ready" {
			t.Errorf("its status is %q, want ready", got)
		}
		before = show("MainPID")
		status := m.do("cat", "/proc/"+before+"/status")
		for _, want := range []string{"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
			if !strings.Contains(status, want) {
				t.Errorf("the bridge lacks %q", want)
			}
		}
	}
	m.upgraded = func() {
		if !m.running() {
			t.Error("the bridge does not run after the upgrade")
		}
		if show("MainPID") == before {
			t.Error("the bridge was not restarted")
		}
		if got := show("NRestarts"); got != "0" {
			t.Errorf("it was restarted %s times because it failed", got)
		}
	}
	m.life()

	if got := m.command("systemctl", "cat", "delaybridge").Run(); got == nil {
		t.Error("the unit is there after the removal")
	}
}

// systemd's own judgement of what the unit leaves open: 0 is nothing, 10 all.
func TestUnitIsHardened(t *testing.T) {
	cmd := exec.Command("docker", "run", "--rm", "--interactive", "--network", "none", cmp.Or(os.Getenv("DELAYBRIDGE_SYSTEMD_IMAGE"), systemdImage), "sh", "-c",
		"cat >/tmp/delaybridge.service && systemd-analyze security --offline=yes --threshold=15 --no-pager /tmp/delaybridge.service")
	text, err := os.ReadFile("packaging/delaybridge.service")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = strings.NewReader(string(text))
	if err := said(cmd); err != nil {
		t.Error(err)
	}
}
