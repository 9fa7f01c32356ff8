package broker_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

// closeConnections closes those of the test's virtual host that bear its name,
// and reports how many there were.
func closeConnections(t *testing.T, env servertest.Env) int {
	t.Helper()
	var found []struct {
		Name       string `json:"name"`
		Properties struct {
			Name string `json:"connection_name"`
		} `json:"client_properties"`
	}
	if err := json.Unmarshal(env.Manage(t, http.MethodGet, "/api/vhosts/"+env.VHost+"/connections", ""), &found); err != nil {
		t.Fatal(err)
	}
	closed := 0
	for _, c := range found {
		if c.Properties.Name == t.Name() {
			env.Manage(t, http.MethodDelete, "/api/connections/"+url.PathEscape(c.Name), "")
			closed++
		}
	}
	return closed
}

func TestConnectionClosedByAnOperatorComesBack(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	ch := channel(t, env.AMQPURL)
	declare(t, ch, "q", quorum())
	p, l := publisher(t, connect(t, env.AMQPURL)), newLedger()
	n := 0
	load := func() {
		for range 100 {
			n++
			if err := l.publish(t.Context(), p, "", "q", strconv.Itoa(n)); errors.Is(err, broker.ErrNotSent) {
				t.Fatal(err)
			}
		}
	}
	// The management plugin takes seconds to know of a connection.
	deadline := time.Now().Add(patience)
	for closed := 0; closed == 0; closed = closeConnections(t, env) {
		if time.Now().After(deadline) {
			t.Fatal("the management API never showed the connection")
		}
		<-time.After(100 * time.Millisecond) // or it is ever more that waits for the broker, and is to be got at the end
		load()
	}
	load()
	answers := l.await(t)
	confirmedMessagesArrived(t, answers, drain(t, ch, "q"))
	if err := l.publish(t.Context(), p, "", "q", "at the end"); err != nil {
		t.Fatal(err)
	}
	if err := l.await(t)["at the end"]; err != nil {
		t.Errorf("after the connection came back: %v", err)
	}
}

// A virtual host that does not exist fails the first connection alone: one that is
// deleted may be made anew.
func TestVirtualHostMadeAnew(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	refused := make(chan struct{}, 1)
	conn, err := broker.New(broker.Config{URL: env.AMQPURL, Name: t.Name(), Logger: slog.New(tell{slog.DiscardHandler, "create the virtual host", refused})})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- conn.Run(ctx) }()
	if err := conn.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	env.Manage(t, http.MethodDelete, "/api/vhosts/"+env.VHost, "")
	select {
	case <-refused:
	case err := <-ended:
		t.Fatalf("Run ended: %v", err)
	case <-ctx.Done():
		t.Fatal("the log does not say what to do about the virtual host")
	}
	env.Manage(t, http.MethodPut, "/api/vhosts/"+env.VHost, "{}")
	env.Manage(t, http.MethodPut, "/api/permissions/"+env.VHost+"/guest", `{"configure":".*","write":".*","read":".*"}`)
	if err := conn.Ready(ctx); err != nil {
		t.Errorf("after the virtual host was made anew: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run ended: %v", err)
	}
}

// tell is a handler that tells of an error with that text.
type tell struct {
	slog.Handler
	text string
	told chan struct{}
}

func (tell) Enabled(context.Context, slog.Level) bool { return true }

func (h tell) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h tell) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" && strings.Contains(a.Value.String(), h.text) {
			select {
			case h.told <- struct{}{}:
			default:
			}
		}
		return true
	})
	return nil
}

func TestFrozenBroker(t *testing.T) {
	t.Parallel()
	server := servertest.RabbitMQForTest(t)
	ch := channel(t, server.AMQPURL())
	declare(t, ch, "q", quorum())
	p, l := publisher(t, connect(t, server.AMQPURL())), newLedger()
	if err := l.publish(t.Context(), p, "", "q", "before"); err != nil {
		t.Fatal(err)
	}
	l.await(t)

	if err := server.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The kernel takes these on the broker's behalf. Three heartbeats later the
	// connection counts as dead.
	for i := range 10 {
		if err := l.publish(t.Context(), p, "", "q", strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	answers := l.await(t)
	for i := range 10 {
		if err := answers[strconv.Itoa(i)]; !errors.Is(err, broker.ErrUnconfirmed) {
			t.Errorf("%d, sent to a frozen broker: got %v, want ErrUnconfirmed", i, err)
		}
	}
	if err := server.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.publish(t.Context(), p, "", "q", "after"); err != nil {
		t.Fatal(err)
	}
	if err := l.await(t)["after"]; err != nil {
		t.Errorf("after the thaw: %v", err)
	}
}

func TestMemoryAlarmBlocksPublishers(t *testing.T) {
	t.Parallel()
	server := servertest.RabbitMQForTest(t)
	declare(t, channel(t, server.AMQPURL()), "q", quorum())
	conn := connect(t, server.AMQPURL())
	p, l := publisher(t, conn), newLedger()
	control := func(args ...string) {
		t.Helper()
		if _, err := server.Control(t.Context(), args...); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.publish(t.Context(), p, "", "q", "before"); err != nil {
		t.Fatal(err)
	}
	l.await(t)

	control("set_vm_memory_high_watermark", "0.000001")
	// The broker says so only to those who publish, and takes the message later.
	if err := l.publish(t.Context(), p, "", "q", "the first"); err != nil {
		t.Fatal(err)
	}
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline) && err == nil; {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err = conn.Ready(ctx)
		cancel()
	}
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "connection.blocked") {
		t.Fatalf("while the broker blocks publishers: got %v, want a word about it", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := l.publish(ctx, p, "", "q", "refused"); !errors.Is(err, broker.ErrNotSent) {
		t.Errorf("publishing meanwhile: got %v, want ErrNotSent", err)
	}

	control("set_vm_memory_high_watermark", "0.4")
	if err := l.publish(t.Context(), p, "", "q", "after"); err != nil {
		t.Fatal(err)
	}
	answers := l.await(t)
	for _, id := range []string{"the first", "after"} {
		if answers[id] != nil {
			t.Errorf("%s: %v", id, answers[id])
		}
	}
}

func TestRunEndsWhereTryingAgainIsInVain(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	stranger := env.Prefix + "-stranger"
	env.Manage(t, http.MethodPut, "/api/users/"+stranger, `{"password":"right","tags":""}`)
	t.Cleanup(func() { env.Manage(t, http.MethodDelete, "/api/users/"+stranger, "") })
	with := func(change func(*url.URL)) string {
		u, err := url.Parse(env.AMQPURL)
		if err != nil {
			t.Fatal(err)
		}
		change(u)
		return u.String()
	}
	for name, c := range map[string]struct {
		url   string
		cause error
		words []string
	}{
		"wrong password": {
			with(func(u *url.URL) { u.User = url.UserPassword(stranger, "wr0ng") }),
			broker.ErrConfiguration, []string{"user name or password", stranger},
		},
		"no such virtual host": {
			with(func(u *url.URL) { u.Path = "/nowhere" }),
			broker.ErrConfiguration, []string{"create the virtual host", "nowhere"},
		},
		"no permission for the virtual host": {
			with(func(u *url.URL) { u.User = url.UserPassword(stranger, "right") }),
			broker.ErrConfiguration, []string{"permit the user", env.VHost},
		},
		"nobody listens": {
			"amqp://guest:wr0ng@127.0.0.1:1/",
			broker.ErrUnreachable, []string{"127.0.0.1:1", "is it running"},
		},
		"nobody listens at any of the hosts": {
			"amqp://guest:wr0ng@127.0.0.1:1,127.0.0.1:2/",
			broker.ErrUnreachable, []string{"127.0.0.1:1,127.0.0.1:2", "127.0.0.1:1:", "127.0.0.1:2:", "is it running"},
		},
		"wrong password, and one host down": {
			with(func(u *url.URL) { u.User, u.Host = url.UserPassword(stranger, "wr0ng"), "127.0.0.1:1,"+u.Host }),
			broker.ErrConfiguration, []string{"user name or password", stranger},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := broker.New(broker.Config{URL: c.url, GiveUpAfter: 100 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			err = conn.Run(t.Context())
			if !errors.Is(err, c.cause) {
				t.Fatalf("got %v, want %v", err, c.cause)
			}
			for _, word := range c.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not mention %q", err, word)
				}
			}
			if strings.Contains(err.Error(), "wr0ng") {
				t.Errorf("%q has the password in it", err)
			}
			if _, again := conn.Channel(t.Context()); !errors.Is(again, c.cause) {
				t.Errorf("a channel after that: got %v, want %v", again, c.cause)
			}
		})
	}
}

// A limit of so long is not exceeded by a pause, nor by a host that does not answer.
func TestGivesUpWhenTheLimitIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const patience = 15 * time.Second
		conn, err := broker.New(broker.Config{URL: "amqp://127.0.0.1:1/", StartWithin: patience})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := conn.Run(t.Context()); !errors.Is(err, broker.ErrUnreachable) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took != patience {
			t.Errorf("it gave up after %v, want %v", took, patience)
		}
		for left, want := range map[time.Duration]time.Duration{
			time.Minute: 10 * time.Second, 7 * time.Second: 7 * time.Second, -time.Second: 5 * time.Second,
		} {
			if got := broker.DialWithin(time.Now().Add(left)); got != want {
				t.Errorf("%v before the limit a host may take %v, want %v", left, got, want)
			}
		}
		if got := broker.DialWithin(time.Time{}); got != 10*time.Second {
			t.Errorf("without a limit a host may take %v", got)
		}
	})
}

// Which host comes first is chance; ten connections leave none that did not try the dead one.
func TestHostThatIsDownIsPassedOver(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	u, err := url.Parse(env.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = "127.0.0.1:1," + u.Host + ",127.0.0.1:2"
	for range 10 {
		conn, err := broker.New(broker.Config{URL: u.String(), StartWithin: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- conn.Run(ctx) }()
		if err := conn.Ready(t.Context()); err != nil {
			t.Error(err)
		}
		if _, vhost, err := conn.Server(t.Context()); err != nil || vhost != env.VHost {
			t.Errorf("virtual host %q, %v, want %q", vhost, err, env.VHost)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestRunReturnsNilWithItsContext(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	conn, err := broker.New(broker.Config{URL: env.AMQPURL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- conn.Run(ctx) }()
	if err := conn.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	if err := conn.Ready(t.Context()); !errors.Is(err, amqp.ErrClosed) {
		t.Errorf("Ready afterwards: got %v, want ErrClosed", err)
	}
}

// A connection that ends in the middle of the handshake, because the broker or
// the network dies, says nothing about the password.
func TestConnectionCutDuringTheHandshake(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(servertest.ForTest(t).AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	broken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	there := u.Host
	u.Host = broken.Addr().String()
	const cuts = 3
	go func() {
		defer broken.Close()
		for n := 0; ; n++ {
			client, err := broken.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", there)
			if err != nil {
				t.Error(err)
				return
			}
			if n < cuts {
				// The protocol header, and the broker's start; then comes start-ok.
				if _, err := io.CopyN(server, client, 8); err != nil {
					t.Error(err)
				}
				go func() { _, _ = io.Copy(client, server) }()
				_, _ = client.Read(make([]byte, 1))
				client.Close()
				server.Close()
				continue
			}
			go func() { _, _ = io.Copy(server, client); server.Close() }()
			go func() { _, _ = io.Copy(client, server); client.Close() }()
			return
		}
	}()
	conn, err := broker.New(broker.Config{URL: u.String(), Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- conn.Run(ctx) }()
	ready, stop := context.WithTimeout(ctx, patience)
	defer stop()
	if err := conn.Ready(ready); err != nil {
		t.Errorf("after %d cuts: %v", cuts, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}

// Run ends with its context also while a broker is silent during the handshake, which may take ten seconds.
func TestRunEndsDuringTheHandshake(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	conn, err := broker.New(broker.Config{URL: "amqp://" + silent.Addr().String() + "/"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- conn.Run(ctx) }()
	client, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := io.ReadFull(client, make([]byte, 8)); err != nil { // the protocol header
		t.Fatal(err)
	}
	cancel()
	began := time.Now()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it ends after %v", took)
	}
}
