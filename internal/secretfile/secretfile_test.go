package secretfile_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/internal/secretfile"
)

const password = "s3cr3t"

func write(t *testing.T, content string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a url@1 %20.txt")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	return path
}

func TestResolve(t *testing.T) {
	t.Parallel()
	const want = "amqp://u:" + password + "@h/v"
	for _, content := range []string{want, want + "\n", want + "\r\n", " " + want + " \n\n"} {
		got, err := secretfile.Resolve(secretfile.URL(write(t, content, 0o600)))
		if err != nil || got != want {
			t.Errorf("%q: got %q, %v", content, got, err)
		}
	}
	for _, other := range []string{want, "", "file:x", "file://x", "unix:///x"} {
		if got, err := secretfile.Resolve(other); err != nil || got != other {
			t.Errorf("%q: got %q, %v", other, got, err)
		}
	}
}

// An error names the file and what is wrong with it, and nothing that is in it.
func TestWrongFiles(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"":                                  "it is empty",
		"\n":                                "it is empty",
		"amqp://u:" + password + "@h\nmore": "it has more than one line",
		"file:///" + password:               "it names a file in turn",
	} {
		path := write(t, content, 0o600)
		_, err := secretfile.Resolve(secretfile.URL(path))
		if err == nil || !strings.Contains(err.Error(), path+": "+want) || strings.Contains(err.Error(), password) {
			t.Errorf("%q: got %v, want %q", content, err, want)
		}
	}
	missing := filepath.Join(t.TempDir(), "missing")
	for _, path := range []string{missing, filepath.Dir(missing)} {
		if _, err := secretfile.Read(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v", path, err)
		}
	}
	if unreadable := write(t, "x", 0); os.Getuid() != 0 && runtime.GOOS != "windows" {
		if _, err := secretfile.Read(unreadable); !os.IsPermission(err) || !strings.Contains(err.Error(), unreadable) {
			t.Errorf("got %v", err)
		}
	}
}

func TestExposed(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		return // has no such modes
	}
	for mode, want := range map[os.FileMode]bool{0o400: false, 0o600: false, 0o440: true, 0o604: true, 0o620: true} {
		path := write(t, "x", mode)
		if got := secretfile.Exposed(path, ""); got != want {
			t.Errorf("%v: got %v", mode, got)
		}
		if secretfile.Exposed(path, filepath.Dir(path)+"/") {
			t.Errorf("%v: a credential of systemd's is exposed", mode)
		}
	}
	if secretfile.Exposed(filepath.Join(t.TempDir(), "missing"), "") {
		t.Error("a file that is not there is exposed")
	}
}
