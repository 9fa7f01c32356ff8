package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// From one commit come the same bytes, wherever the clone is.
func TestTwiceTheSameBytes(t *testing.T) {
	once, again := dist(t, first), dist(t, "again")
	names := func(dir string) (names []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		return names
	}
	want := []string{checksums}
	for _, ending := range []string{".cdx.json", ".deb", ".image.tar", ".rpm", ".tar.gz"} {
		want = append(want, "delaybridge_"+first+"_linux_amd64"+ending)
	}
	if got := names(once); !slices.Equal(got, want) {
		t.Errorf("a release has %q, want %q", got, want)
	}
	for _, name := range names(once) {
		a, err := os.ReadFile(filepath.Join(once, name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(again, name))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(a, b) {
			t.Errorf("%s differs between two builds of one commit", name)
		}
	}
	check := exec.Command("sha256sum", "--check", "--strict", checksums)
	check.Dir = once
	if err := said(check); err != nil {
		t.Error(err)
	}
}

// What is in the program is in the bill and has a licence, and the tools that only build it are not.
func TestBillAndNotices(t *testing.T) {
	content, err := os.ReadFile(published(t, first, ".cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		BOMFormat string
		Metadata  struct {
			Component struct{ Name, Version string }
		}
		Components []struct {
			Name     string
			Evidence struct{ Licenses []any }
		}
	}
	if err := json.Unmarshal(content, &bill); err != nil {
		t.Fatal(err)
	}
	if bill.BOMFormat != "CycloneDX" || bill.Metadata.Component.Version != "v"+first {
		t.Errorf("%s of %s %s, want CycloneDX of v%s", bill.BOMFormat, bill.Metadata.Component.Name, bill.Metadata.Component.Version, first)
	}
	notes := outputOf(t, exec.Command("tar", "--extract", "--to-stdout", "--file", published(t, first, ".tar.gz"), "--wildcards", "*/"+notices))
	names := map[string]bool{}
	for _, c := range bill.Components {
		names[c.Name] = true
		if c.Name == "std" {
			continue
		}
		if len(c.Evidence.Licenses) == 0 {
			t.Errorf("the bill has no licence of %s", c.Name)
		}
		if !strings.Contains(notes, "\n"+c.Name+" v") {
			t.Errorf("the notices lack %s", c.Name)
		}
	}
	for _, name := range []string{"std", "github.com/rabbitmq/amqp091-go", "github.com/redis/go-redis/v9", "modernc.org/sqlite"} {
		if !names[name] {
			t.Errorf("the bill lacks %s", name)
		}
	}
	for _, name := range []string{"github.com/cpuguy83/go-md2man/v2", "github.com/goreleaser/nfpm/v2"} {
		if names[name] {
			t.Errorf("%s is in the program", name)
		}
	}
}

// Distributions with RPM are not at hand; what the package has, and its scripts, can be read anywhere.
func TestRPM(t *testing.T) {
	if _, err := exec.LookPath("rpm"); err != nil {
		t.Fatalf("%v: run apt-get install rpm", err)
	}
	file := published(t, first, ".rpm")
	if err := said(exec.Command("rpm", "--checksig", "--nosignature", file)); err != nil {
		t.Error(err)
	}
	if got := outputOf(t, exec.Command("rpm", "-qp", "--qf", "%{NAME} %{VERSION} %{ARCH} %{LICENSE}", file)); got != "delaybridge "+first+" x86_64 Apache-2.0" {
		t.Errorf("it says that it is %s", got)
	}
	list := outputOf(t, exec.Command("rpm", "-qp", "--qf", `[%{FILEMODES:perms} %{FILEUSERNAME}:%{FILEGROUPNAME} %{FILENAMES}\n]`, file))
	for _, want := range []string{
		`-rwxr-xr-x root:root /usr/bin/delaybridge`, `-rw-r--r-- root:root /usr/lib/systemd/system/delaybridge.service`,
		`drwxr-x--- root:delaybridge /etc/delaybridge`, `-rw-r----- root:delaybridge /etc/delaybridge/settings.yaml`, `-rw------- root:root /etc/delaybridge/amqp-url`,
		`-rw-r--r-- root:root /usr/share/man/man1/delaybridge-publish.1.gz`, `-rw-r--r-- root:root /usr/share/zsh/site-functions/_delaybridge`,
		`-rw-r--r-- root:root /usr/share/licenses/delaybridge/LICENSE`,
	} {
		if !strings.Contains(list, want+"\n") {
			t.Errorf("it lacks %s\n%s", want, list)
		}
	}
	scripts := outputOf(t, exec.Command("rpm", "-qp", "--scripts", file))
	for _, want := range []string{"useradd --system", "systemctl try-restart delaybridge.service", "systemctl disable --now delaybridge.service"} {
		if !strings.Contains(scripts, want) {
			t.Errorf("its scripts do not %s\n%s", want, scripts)
		}
	}
	root := t.TempDir()
	if err := said(exec.Command("rpm", "--root", root, "--install", "--nodeps", "--noscripts", file)); err != nil {
		t.Fatal(err)
	}
	if got := outputOf(t, exec.Command(filepath.Join(root, "usr/bin/delaybridge"), "--version")); got != "delaybridge v"+first+"\n" {
		t.Errorf("it installs %s", got)
	}
}

func outputOf(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := output(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
