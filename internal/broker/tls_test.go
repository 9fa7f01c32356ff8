package broker_test

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net/url"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

// encryptedURL is the broker's behind mutual TLS, with the files in its query.
func encryptedURL(t *testing.T, rawURL, address string, query url.Values) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	u.Scheme, u.Host, u.RawQuery = "amqps", address, query.Encode()
	return u.String()
}

// Certificates are those that the files hold when a connection begins. What the library cannot decode is kept
// from it there, too.
func TestMutualTLS(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	u, err := url.Parse(env.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	authority, another := servertest.NewAuthority(t), servertest.NewAuthority(t)
	later := time.Now().Add(time.Hour)
	authority.Issue(t, "server", later, "127.0.0.1", "rabbit.example")
	clientCert, clientKey := authority.Issue(t, "client", later)
	strangerCert, strangerKey := another.Issue(t, "client", later)
	address, cut := authority.Encrypt(t, u.Host)
	good := url.Values{"cacertfile": {authority.File}, "certfile": {clientCert}, "keyfile": {clientKey}}
	for name, c := range map[string]struct {
		change url.Values
		says   string // "" works
	}{
		"as it should be":             {},
		"another name of the server":  {change: url.Values{"server_name_indication": {"rabbit.example"}}},
		"TLS 1.3":                     {change: url.Values{"tls_min_version": {"1.3"}}},
		"not the server's name":       {url.Values{"server_name_indication": {"other.example"}}, "not other.example"},
		"another authority":           {url.Values{"cacertfile": {another.File}}, "not trusted"},
		"a stranger":                  {url.Values{"certfile": {strangerCert}, "keyfile": {strangerKey}}, "tls"},
		"no certificate":              {url.Values{"certfile": nil, "keyfile": nil}, "tls"},
		"a certificate without a key": {url.Values{"keyfile": nil}, "certfile and keyfile: give both"},
		"another's key":               {url.Values{"keyfile": {strangerKey}}, "private key does not match"},
		"no such authority":           {url.Values{"cacertfile": {"/no/such/file"}}, "cacertfile: open /no/such/file"},
		"no authority":                {url.Values{"cacertfile": {clientKey}}, "has no certificate in PEM"},
		"a version that there is not": {url.Values{"tls_min_version": {"1.1"}}, "use 1.2 or 1.3"},
		"a mechanism by name":         {change: url.Values{"auth_mechanism": {"AMQPLAIN"}}},
		"a mechanism not offered":     {url.Values{"auth_mechanism": {"external"}}, "enable its plugin rabbitmq_auth_mechanism_ssl"},
		"one of two mechanisms":       {change: url.Values{"auth_mechanism": {"external", "plain"}}},
	} {
		t.Run(name, func(t *testing.T) {
			query := url.Values{}
			for _, from := range []url.Values{good, c.change} {
				maps.Copy(query, from)
			}
			conn, err := broker.New(broker.Config{URL: encryptedURL(t, env.AMQPURL, address, query), Name: t.Name(), GiveUpAfter: 3 * time.Second})
			if err == nil {
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- conn.Run(ctx) }()
				if _, err = conn.Channel(ctx); err == nil {
					stop()
				}
				err = errors.Join(err, <-ended)
				stop()
			}
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
		})
	}

	wrong := encryptedURL(t, env.AMQPURL, address, url.Values{"auth_mechanism": {"amqplain"}, "cacertfile": {authority.File}, "certfile": {clientCert}, "keyfile": {clientKey}})
	if u, err = url.Parse(wrong); err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("stranger", "s3cr3t")
	stranger, err := broker.New(broker.Config{URL: u.String(), Name: t.Name(), GiveUpAfter: patience})
	if err != nil {
		t.Fatal(err)
	}
	if err := stranger.Run(t.Context()); !errors.Is(err, broker.ErrConfiguration) || !strings.Contains(err.Error(), "refused user name or password") {
		t.Errorf("a stranger by AMQPLAIN: got %v", err)
	}

	conn, err := broker.New(broker.Config{URL: encryptedURL(t, env.AMQPURL, address, good), Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- conn.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	channel := func() *amqp.Channel {
		t.Helper()
		ch, err := conn.Channel(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return ch
	}
	ch := channel()
	if _, err := ch.QueueDeclare("deep", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	deep := amqp.Table{}
	for range 40 {
		deep = amqp.Table{"deep": deep}
	}
	if err := ch.PublishWithContext(t.Context(), "", "deep", false, false, amqp.Publishing{Headers: amqp.Table{"table": deep, "mine": "kept"}, Body: make([]byte, 300_000)}); err != nil {
		t.Fatal(err)
	}
	until(t, "a message that cannot be decoded", func() bool {
		d, ok, err := ch.Get("deep", true)
		if err != nil {
			t.Fatal(err)
		}
		return ok && strings.Contains(broker.Undecodable(&d), "nested deeper than 32") && d.Headers["mine"] == "kept" && len(d.Body) == 300_000
	})

	// Expired, it is tried again until somebody has renewed it.
	authority.Issue(t, "server", time.Now().Add(-time.Hour), "127.0.0.1")
	cut()
	until(t, "the connection is lost", func() bool { return ch.IsClosed() })
	authority.Issue(t, "server", later, "127.0.0.1")
	if _, err := channel().QueueDelete("deep", false, false, false); err != nil {
		t.Error(err)
	}
}

// What is wrong with TLS or with how to authenticate is said before anything is dialled.
func TestNewRejectsWrongTLS(t *testing.T) {
	t.Parallel()
	authority, another := servertest.NewAuthority(t), servertest.NewAuthority(t)
	cert, key := authority.Issue(t, "client", time.Now().Add(time.Hour))
	_, anothersKey := another.Issue(t, "client", time.Now().Add(time.Hour))
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	own := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	withPair := "certfile=" + cert + "&keyfile=" + key
	for _, c := range []struct {
		url  string
		tls  *tls.Config
		says string // "" works
	}{
		{url: "amqps://h/?cacertfile=" + authority.File + "&" + withPair},
		{url: "amqps://u:s3cr3t@a,b/?cacertfile=/no/such/file", says: "cacertfile: open /no/such/file"},
		{url: "amqps://h/?cacertfile=" + key, says: "has no certificate in PEM"},
		{url: "amqps://h/?certfile=" + cert, says: "certfile and keyfile: give both"},
		{url: "amqps://h/?certfile=/no/such/file&keyfile=" + key, says: "open /no/such/file"},
		{url: "amqps://h/?certfile=" + cert + "&keyfile=" + anothersKey, says: "private key does not match"},
		{url: "amqps://h/?auth_mechanism=external&" + withPair},
		{url: "amqps://h/?auth_mechanism=EXTERNAL", tls: own},
		{url: "amqps://h/?auth_mechanism=external", says: "auth_mechanism=external authenticates by a certificate: name it by certfile and keyfile"},
		{url: "amqp://h/?auth_mechanism=external", says: "auth_mechanism=external means nothing without TLS: write amqps://"},
		{url: "amqp://h/?auth_mechanism=plain&auth_mechanism=External", says: "auth_mechanism=external means nothing without TLS"},
		{url: "amqp://h/?auth_mechanism=plain&auth_mechanism=AMQPLAIN"},
		{url: "amqp://h/?auth_mechanism=scram", says: `auth_mechanism "scram": use plain (the default), amqplain or external`},
		{url: "amqps://h/?auth_mechanism=", says: `auth_mechanism "": use plain`},
	} {
		_, err := broker.New(broker.Config{URL: c.url, TLS: c.tls})
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s: %v", c.url, err)
		case c.says != "" && (!errors.Is(err, broker.ErrConfiguration) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cr3t")):
			t.Errorf("%s: got %v, want ErrConfiguration that says %q", c.url, err, c.says)
		}
	}
}
