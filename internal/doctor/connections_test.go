package doctor_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/doctor"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

func TestURLsAreJudged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ amqp, management, redis, want string }{
		{"amqp://guest:guest@localhost:5672/", "http://guest:guest@127.0.0.1:15672", "redis://localhost:6379/0", ""},
		{"amqps://u:p@mq.example", "https://u:p@mq.example", "rediss://r.example?addr=s.example", ""},
		{"amqp://u:p@a.example,127.0.0.1/", "", "", "plaintext"},
		{"amqps://guest:guest@a.example", "https://guest:guest@a.example", "", "default-password,default-password"},
		{"amqps://u:p@a.example", "http://u:p@a.example", "redis://a.example?addr=b.example&addr=localhost:1", "plaintext,plaintext,plaintext"},
	} {
		found, err := doctor.JudgeURLs(doctor.Config{AMQPURL: c.amqp, ManagementURL: c.management, RedisURL: c.redis})
		if got := codes(found); got != c.want || err != nil {
			t.Errorf("%+v: %q (%v)", c, got, err)
		}
	}
}

// Each server has a certificate that ends soon, and the client has one that does not.
func certificates(t *testing.T, i *installation) {
	t.Helper()
	authority := servertest.NewAuthority(t)
	authority.Issue(t, "server", time.Now().Add(3*24*time.Hour), "127.0.0.1")
	clientCert, clientKey := authority.Issue(t, "client", time.Now().Add(15*24*time.Hour))
	encrypted := func(rawURL, scheme string) string {
		u, err := url.Parse(rawURL)
		if err != nil {
			t.Fatal(err)
		}
		address, _ := authority.Encrypt(t, u.Host)
		u.Scheme, u.Host = scheme, address
		u.RawQuery = url.Values{"cacertfile": {authority.File}, "certfile": {clientCert}, "keyfile": {clientKey}}.Encode()
		return u.String()
	}
	c := i.config
	c.AMQPURL, c.ManagementURL, c.RedisURL = encrypted(i.AMQPURL, "amqps"), encrypted(i.ManagementURL, "https"), encrypted(i.RedisURL, "rediss")
	report := i.examine(t, c, "connections")
	if got := codes(report.Findings); got != "certificate-ends,certificate-ends,certificate-ends" {
		t.Fatalf("found %+v", report.Findings)
	}
	for _, f := range report.Findings {
		if !strings.HasPrefix(f.Found, "the server's certificate ends at 20") || !strings.Contains(f.Found, "in 7") {
			t.Errorf("it says %+v", f)
		}
	}
	authority.Issue(t, "client", time.Now().Add(24*time.Hour))
	authority.Issue(t, "server", time.Now().Add(15*24*time.Hour), "127.0.0.1")
	report = i.examine(t, c, "connections")
	for _, f := range report.Findings {
		if !strings.HasPrefix(f.Found, "the certificate in "+clientCert+" ends at 20") {
			t.Errorf("it says %+v", f)
		}
	}
	if len(report.Findings) != 3 {
		t.Errorf("found %+v", report.Findings)
	}
}
