package topology_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/topology"
)

const secret = "pa55word"

func TestNewManagementRejects(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"", "localhost:15672", "amqp://u:" + secret + "@localhost:5672", "http://", "http://u:" + secret + "@bad host", "http://u:" + secret + "@h:port",
	} {
		_, err := topology.NewManagement(address, "/")
		if !errors.Is(err, topology.ErrConfiguration) {
			t.Errorf("%q: got %v, want ErrConfiguration", address, err)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%q: the password is in: %v", address, err)
		}
	}
}

func TestVerifyNamesWhatIsWrongWithTheManagementURL(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	answering := func(status int, body string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body) // the client notices
		}))
		t.Cleanup(server.Close)
		return "http://u:" + secret + "@" + server.Listener.Addr().String()
	}
	withUser := func(address string, user *url.Userinfo) string {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		u.User = user
		return u.String()
	}
	amqp, err := url.Parse(env.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		address, vhost string
		want           error
		text           string
	}{
		"nobody there":    {"http://u:" + secret + "@127.0.0.1:1", "/", topology.ErrUnreachable, "is the management plugin on"},
		"the AMQP port":   {"http://u:" + secret + "@" + amqp.Host, "/", topology.ErrUnreachable, "is this its port"},
		"wrong password":  {withUser(env.ManagementURL, url.UserPassword("guest", secret)), env.VHost, topology.ErrConfiguration, `user "guest"`},
		"no credentials":  {withUser(env.ManagementURL, nil), env.VHost, topology.ErrConfiguration, "is refused"},
		"no such vhost":   {env.ManagementURL, "no/such vhost", topology.ErrConfiguration, `virtual host "no/such vhost"`},
		"another website": {answering(http.StatusOK, "<html>"), "/", topology.ErrConfiguration, "not as RabbitMQ's"},
		"overloaded":      {answering(http.StatusServiceUnavailable, `{"reason":"starting"}`), "/", topology.ErrUnreachable, "starting"},
		"strange answer":  {answering(http.StatusTeapot, ""), "/", nil, "teapot"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := topology.NewManagement(test.address, test.vhost)
			if err != nil {
				t.Fatal(err)
			}
			_, err = describe(t, topology.Config{}).Verify(t.Context(), m)
			if err == nil || (test.want != nil && !errors.Is(err, test.want)) || !strings.Contains(err.Error(), test.text) {
				t.Fatalf("got %v\nwant %v with %q", err, test.want, test.text)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the password is in: %v", err)
			}
			if host := m.String(); !strings.Contains(err.Error(), host) {
				t.Errorf("%s is missing in: %v", host, err)
			}
		})
	}
}

func TestTheDefaultVHostIsEscaped(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	m, err := topology.NewManagement(env.ManagementURL, "/")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := describe(t, topology.Config{Prefix: env.Prefix}).Verify(t.Context(), m); err != nil {
		t.Error(err)
	}
}

func TestVerifyStopsWithItsContext(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	m, err := topology.NewManagement(env.ManagementURL, env.VHost)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := describe(t, topology.Config{}).Verify(ctx, m); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want Canceled", err)
	}
}
