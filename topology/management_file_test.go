package topology_test

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/topology"
)

// A password is replaced while somebody asks: the next request takes it from the file.
func TestManagementURLInFile(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	user, path := "user-"+env.VHost, filepath.Join(t.TempDir(), "management-url")
	t.Cleanup(func() { env.Manage(t, http.MethodDelete, "/api/users/"+user, "") })
	replace := func(password string) {
		t.Helper()
		env.Manage(t, http.MethodPut, "/api/users/"+user, `{"password":"`+password+`","tags":"administrator"}`)
	}
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at, err := url.Parse(env.ManagementURL)
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.UserPassword(user, secret+"-1")
	first := at.String()
	at.User = url.UserPassword(user, secret+"-2")
	second := at.String()

	replace(secret + "-1")
	write(first)
	management, err := topology.NewManagement("file://"+path, env.VHost)
	if err != nil {
		t.Fatal(err)
	}
	if management.User() != user || strings.Contains(management.String(), secret) {
		t.Errorf("user %q of %s", management.User(), management)
	}
	ask := func() error { return management.Get(t.Context(), "vhosts/{vhost}", new(any)) }
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	replace(secret + "-2")
	eventually(t, "the old password is refused", func() bool { return errors.Is(ask(), topology.ErrConfiguration) })
	write(second)
	if err := ask(); err != nil {
		t.Error(err)
	}
	write("")
	if err := ask(); !errors.Is(err, topology.ErrConfiguration) || !strings.Contains(err.Error(), path+": it is empty") {
		t.Errorf("got %v", err)
	}
	if _, err := topology.NewManagement("file://"+path, "/"); !errors.Is(err, topology.ErrConfiguration) {
		t.Errorf("got %v", err)
	}
}
