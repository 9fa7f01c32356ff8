package doctor_test

import (
	"context"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/doctor"
	"github.com/delaybridge/delaybridge/internal/roles"
	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/rabbitmq"
	"github.com/delaybridge/delaybridge/internal/servers/redisserver"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// stateTimeout bounds the wait for a state, several examinations long.
const stateTimeout = 90 * time.Second

// site is where installations are made, on servers of their own, which the commands
// that the doctor prints may change.
type site struct {
	broker *rabbitmq.Node
	store  *redisserver.Node
}

func newSite(t *testing.T) site {
	t.Helper()
	single := servers.Config{RabbitMQLayout: servers.Single, RedisLayout: servers.Single}
	broker, err := servers.StartRabbitMQ(t.Context(), single)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, broker.Stop) })
	// Most checks wait for statistics: fresh ones every second instead of every five.
	if _, err := broker.Control(t.Context(), "eval", `[application:set_env(rabbit, I, 1000) || I <- [collect_statistics_interval, quorum_tick_interval]], `+
		`[application:stop(A) || A <- [rabbitmq_management, rabbitmq_management_agent]], `+
		`[ok = application:start(A) || A <- [rabbitmq_management_agent, rabbitmq_management]].`); err != nil {
		t.Fatal(err)
	}
	return site{broker, newStore(t)}
}

func newStore(t *testing.T) *redisserver.Node {
	t.Helper()
	store, err := servers.StartRedis(t.Context(), servers.Config{RedisLayout: servers.Single})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, store.Stop) })
	return store
}

func stop(t *testing.T, stop func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := stop(ctx); err != nil {
		t.Error(err)
	}
}

// installation is a virtual host and a prefix of a site: a topology, and a user who
// may do what a bridge needs, and nothing else.
type installation struct {
	site
	servertest.Env
	user   string
	config doctor.Config
}

// install makes one that is healthy, but for bridges, of which it has none yet.
func (s site) install(t *testing.T, name string) *installation {
	t.Helper()
	i := &installation{site: s, user: name + "-bridge", Env: servertest.Env{
		ManagementURL: s.broker.ManagementURL(), RedisURL: s.store.URL(), Prefix: name, VHost: name,
	}}
	i.Manage(t, http.MethodPut, "/api/vhosts/"+name, "{}")
	i.Manage(t, http.MethodPut, "/api/permissions/"+name+"/guest", `{"configure":".*","write":".*","read":".*"}`)
	ours := `^` + name + `\\.`
	i.newUser(t, i.user, "", ours, ours, ours)
	i.AMQPURL = i.as(t, s.broker.AMQPURL(), i.user, "secret")
	i.config = i.configure(t, i.Env)
	i.apply(t)
	return i
}

// newUser creates a user with permissions in the virtual host.
func (i *installation) newUser(t *testing.T, name, tags, configure, write, read string) {
	t.Helper()
	i.Manage(t, http.MethodPut, "/api/users/"+name, `{"password":"secret","tags":"`+tags+`"}`)
	i.Manage(t, http.MethodPut, "/api/permissions/"+i.VHost+"/"+name, `{"configure":"`+configure+`","write":"`+write+`","read":"`+read+`"}`)
}

// rightsOf are those of a role; a consumer's are for the queue billing.
func rightsOf(t *testing.T, top *topology.Topology, role roles.Role) roles.Rights {
	t.Helper()
	rights, err := roles.Of(role, top, roles.Scope{Queues: map[roles.Role][]string{roles.Consumer: {"billing"}}[role]})
	if err != nil {
		t.Fatal(err)
	}
	return rights
}

// as is an address with another user, and for AMQP with the virtual host.
func (i *installation) as(t *testing.T, address, user, password string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(user, password)
	if u.Scheme == "amqp" {
		u.Path = "/" + i.VHost
	}
	return u.String()
}

// configure is the doctor's configuration for an installation at env.
func (i *installation) configure(t *testing.T, env servertest.Env) doctor.Config {
	t.Helper()
	top, err := topology.New(topology.Config{Prefix: env.Prefix, Tiers: []time.Duration{time.Second, 30 * time.Second}, Lead: time.Second, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	control, err := i.broker.ControlCommand()
	if err != nil {
		t.Fatal(err)
	}
	return doctor.Config{
		Topology: top, AMQPURL: env.AMQPURL, Management: i.management(t, env.ManagementURL), Redis: i.client(t, env.RedisURL),
		RabbitMQCtl: control, Patience: 5 * time.Second,
	}
}

func (i *installation) management(t *testing.T, address string) *topology.Management {
	t.Helper()
	m, err := topology.NewManagement(address, i.VHost)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (i *installation) client(t *testing.T, address string) redis.UniversalClient {
	t.Helper()
	client, err := redisbridge.NewClient(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() }) // a test may have closed it
	return client
}

// dial connects as guest.
func (i *installation) dial(t *testing.T) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(i.as(t, i.broker.AMQPURL(), "guest", "guest"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // a command may have closed it
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func (i *installation) apply(t *testing.T) {
	t.Helper()
	conn, err := amqp.Dial(i.as(t, i.broker.AMQPURL(), "guest", "guest"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := i.config.Topology.Apply(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
}

func (i *installation) prune(t *testing.T) {
	t.Helper()
	conn, err := amqp.Dial(i.as(t, i.broker.AMQPURL(), "guest", "guest"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, left, err := i.config.Topology.Prune(t.Context(), conn, i.config.Management, topology.PruneOptions{Wait: time.Minute}); err != nil || len(left) > 0 {
		t.Fatalf("left %v, %v", left, err)
	}
}

// bridge runs a bridge of an installation at env until the test, or what it returns,
// ends it.
func (i *installation) bridge(t *testing.T, env servertest.Env, client redis.UniversalClient) (stop func()) {
	t.Helper()
	bridge, err := redisbridge.New(redisbridge.Config{
		Client: client, AMQPURL: env.AMQPURL, Topology: i.config.Topology, Lease: time.Second, DrainTimeout: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := bridge.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return stop
}

// examine makes some checks, or all.
func (i *installation) examine(t *testing.T, c doctor.Config, checks ...string) doctor.Report {
	t.Helper()
	if len(checks) > 0 {
		for _, name := range checks {
			if !slices.Contains(doctor.CheckNames(), name) {
				t.Fatalf("there is no check %q", name)
			}
		}
		c = c.OnlyChecks(checks...)
	}
	report, err := doctor.Examine(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// has waits until a check finds something, of a subject with that in its name, and
// says that of it: what the broker tells becomes complete bit by bit. The finding must
// say what it means, and what to do.
func (i *installation) has(t *testing.T, check, code, subject string, says ...string) doctor.Finding {
	t.Helper()
	var found doctor.Finding
	i.until(t, strings.Join(append([]string{code, subject}, says...), ", "), check, func(r doctor.Report) bool {
		at := slices.IndexFunc(r.Findings, func(f doctor.Finding) bool {
			return f.Code == code && strings.Contains(f.Subject, subject) &&
				!slices.ContainsFunc(says, func(part string) bool { return !strings.Contains(f.Found, part) })
		})
		if at < 0 {
			return false
		}
		found = r.Findings[at]
		return true
	})
	if found.Found == "" || found.Means == "" || found.Do == "" && len(found.Commands) == 0 {
		t.Errorf("incomplete: %+v", found)
	}
	return found
}

// hasNot waits until a check finds nothing of a code, and is made.
func (i *installation) hasNot(t *testing.T, check, code string) {
	t.Helper()
	i.until(t, "the end of "+code, check, func(r doctor.Report) bool {
		return r.Checks[0].Outcome != doctor.OutcomeNotMade && !slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool { return f.Code == code })
	})
}

func (i *installation) until(t *testing.T, what, check string, reached func(doctor.Report) bool) {
	t.Helper()
	deadline := time.Now().Add(stateTimeout)
	for {
		report := i.examine(t, i.config, check)
		if reached(report) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s: %+v", what, report)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// mend does what a finding says, command by command.
func (i *installation) mend(t *testing.T, f doctor.Finding) {
	t.Helper()
	if len(f.Commands) == 0 {
		t.Fatalf("%s has no command", f.Code)
	}
	for _, command := range f.Commands {
		i.carryOut(t, command)
	}
}

func (i *installation) carryOut(t *testing.T, command string) {
	t.Helper()
	words := split(t, command)
	switch {
	case words[0] == "rabbitmqctl":
		if _, err := i.broker.Control(t.Context(), words[1:]...); err != nil {
			t.Fatal(err)
		}
	case words[0] == "rabbitmq-plugins":
		command, err := i.broker.ControlCommand()
		if err != nil {
			t.Fatal(err)
		}
		last := len(command) - 1
		command[last] = strings.TrimSuffix(command[last], "rabbitmqctl") + words[0]
		if output, err := exec.CommandContext(t.Context(), command[0], append(command[1:], words[1:]...)...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", words[0], err, output)
		}
	case words[0] == "redis-cli": // -h HOST -p PORT COMMAND
		client := redis.NewClient(&redis.Options{Addr: words[2] + ":" + words[4], MaxRetries: -1})
		defer func() { _ = client.Close() }()
		args := make([]any, len(words)-5)
		for n, word := range words[5:] {
			args[n] = word
		}
		err := client.Do(t.Context(), args...).Err()
		// A container's file cannot be written.
		if err != nil && !strings.HasSuffix(command, "CONFIG REWRITE") {
			t.Fatalf("%s: %v", command, err)
		}
	case words[0] == "curl":
		i.curl(t, words[1:])
	case command == "delaybridge topology apply":
		i.apply(t)
	case command == "delaybridge topology prune":
		i.prune(t)
	case command == "delaybridge bridge":
		i.bridge(t, i.Env, i.client(t, i.RedisURL))
	default:
		t.Fatalf("no way to carry out %q here", command)
	}
}

// curl does what curl would, as guest.
func (i *installation) curl(t *testing.T, words []string) {
	t.Helper()
	method, body, address := http.MethodGet, "", words[0]
	for n := 0; n < len(words); n++ {
		switch words[n] {
		case "-X":
			method = words[n+1]
		case "-d":
			body = words[n+1]
		case "-u", "-H":
		default:
			address = words[n]
			continue
		}
		n++
	}
	path, ours := strings.CutPrefix(address, strings.Replace(i.ManagementURL, "guest:guest@", "", 1))
	if !ours {
		t.Fatalf("%s is not this broker", address)
	}
	i.Manage(t, method, path, body)
}

// split has a shell take a command apart.
func split(t *testing.T, command string) []string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), "sh", "-c", `printf '%s\0' `+command).Output()
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Split(string(output), "\x00")
	return words[:len(words)-1]
}
