package main

import (
	"bytes"
	"cmp"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/servers/rabbitmq"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

const roleSecret = "s3cret"

// roleUser makes a user by the commands that `permissions` prints, each word of them as a shell
// reads it, and returns the settings of a program that is this user.
func roleUser(t *testing.T, vars map[string]string, role string, args ...string) map[string]string {
	t.Helper()
	user := vars["DELAYBRIDGE_PREFIX"] + "-" + role
	code, printed, said := runIn(t, vars, append([]string{"permissions", "--role", role}, args...)...)
	if code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, said)
	}
	tag := ""
	manage := func(method, path, body string) {
		t.Helper()
		if _, err := rabbitmq.Manage(t.Context(), vars["DELAYBRIDGE_MANAGEMENT_URL"], method, path, body); err != nil {
			t.Fatal(err)
		}
	}
	account := func() {
		manage(http.MethodPut, "/api/users/"+user, asJSON(t, map[string]string{"password": roleSecret, "tags": tag}))
	}
	servers := servertest.Primaries(t, vars["DELAYBRIDGE_REDIS_URL"])
	t.Cleanup(func() { removeRoleUser(t, vars, user) })
	for _, words := range wordsOf(t, strings.ReplaceAll(printed, "PASSWORD", roleSecret)) {
		switch line := strings.Join(words, " "); {
		case strings.HasPrefix(line, "rabbitmqctl add_user "+user+" "+roleSecret):
			account()
		case strings.HasPrefix(line, "rabbitmqctl set_user_tags "+user):
			tag = strings.Join(words[3:], ",")
			account()
		case strings.HasPrefix(line, "rabbitmqctl set_permissions -p ") && len(words) == 8 && words[4] == user:
			manage(http.MethodPut, "/api/permissions/"+url.PathEscape(words[3])+"/"+user,
				asJSON(t, map[string]string{"configure": words[5], "write": words[6], "read": words[7]}))
		case strings.HasPrefix(line, "redis-cli ACL SETUSER "+user+" "):
			command := make([]any, len(words)-1)
			for i, word := range words[1:] {
				command[i] = word
			}
			for _, server := range servers {
				if err := server.Do(t.Context(), command...).Err(); err != nil {
					t.Fatal(err)
				}
			}
		default:
			t.Fatalf("no such command: %q", words)
		}
	}
	of := maps.Clone(vars)
	for _, name := range []string{"DELAYBRIDGE_AMQP_URL", "DELAYBRIDGE_MANAGEMENT_URL"} {
		u, err := url.Parse(of[name])
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(user, roleSecret)
		of[name] = u.String()
	}
	of["DELAYBRIDGE_REDIS_URL"] = servertest.AsRedisUser(t, vars["DELAYBRIDGE_REDIS_URL"], user, roleSecret)
	return of
}

func removeRoleUser(t *testing.T, vars map[string]string, user string) {
	t.Helper()
	_, err := rabbitmq.Manage(t.Context(), vars["DELAYBRIDGE_MANAGEMENT_URL"], http.MethodDelete, "/api/users/"+user, "")
	if err != nil && t.Context().Err() == nil {
		t.Error(err)
	}
}

// wordsOf has a shell read commands, and returns the words of each.
func wordsOf(t *testing.T, commands string) (all [][]string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"rabbitmqctl", "redis-cli"} {
		script := "#!/bin/sh\nprintf '%s\\0' " + name + " \"$@\"\nprintf '\\0'\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", commands)
	cmd.Env = []string{"PATH=" + dir + string(os.PathListSeparator) + os.Getenv("PATH")}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for command := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte("\x00\x00")), []byte("\x00\x00")) {
		all = append(all, strings.Split(string(command), "\x00"))
	}
	return all
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Users that may do what `permissions` prints can do the work of their roles, all of it.
func TestEachRoleDoesItsWork(t *testing.T) {
	t.Parallel()
	vars := scriptEnv(t)
	manager := roleUser(t, vars, "bridge")
	bridge := startServing(t, manager, nil, "bridge")
	bridge.awaitReady(t)
	await(t, "the bridge has put the topology in place", func() bool {
		out, err := command(t, vars, "topology", "plan").Output()
		return err == nil && len(out) == 0
	})
	const program = `case "$DELAYBRIDGE_MESSAGE_ID" in bad-*) exit 1;; esac`
	consumer := startServing(t, roleUser(t, vars, "consumer", "--queue", "billing"), nil, "consume", "--queue", "billing", "--bind", "order.#",
		"--exec", program, "--once", "--max-attempts", "2", "--retry-base", "100ms")
	consumer.awaitReady(t)

	publisher := roleUser(t, vars, "publisher")
	for _, id := range []string{"good-parked", "bad-parked"} {
		commandEnds(t, publisher, cli.ExitOK, "publish", "--id", id, "--key", "order.unpaid", "--in", "2s")
	}
	entry := vars["DELAYBRIDGE_PREFIX"] + ".entry"
	for id, delay := range map[string]int64{"good-tier": 1000, "bad-tier": 1000, "good-inbox": 1500, "bad-inbox": 1500, "good-now": 0} {
		if err := publishAs(t, publisher, entry, "order.unpaid", id, delay); err != nil {
			t.Errorf("publish %s: %v", id, err)
		}
	}
	file := filepath.Join(t.TempDir(), "shop.db")
	relay := startServing(t, roleUser(t, vars, "relay"), nil, "relay", "--database-url", "sqlite://"+file, "--poll", "50ms")
	relay.awaitReady(t)
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for _, row := range []string{
		`(message_id, routing_key) VALUES ('good-relayed', 'order.unpaid')`,
		`(message_id, routing_key, delay_ms) VALUES ('later', 'order.unpaid', 3600000)`,
		`(action, message_id, delay_ms) VALUES ('reschedule', 'later', 7200000)`,
		`(message_id, routing_key, delay_ms) VALUES ('never', 'order.unpaid', 3600000)`,
		`(action, message_id) VALUES ('cancel', 'never')`,
	} {
		if _, err := db.ExecContext(t.Context(), `INSERT INTO delaybridge_outbox `+row); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "the relay has sent everything", func() bool {
		n := 1
		err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM delaybridge_outbox`).Scan(&n)
		return err == nil && n == 0
	})

	operator := roleUser(t, vars, "operator", "--queue", "billing")
	says := func(want []string, args ...string) func() bool {
		return func() bool {
			out, err := command(t, operator, args...).Output()
			for _, one := range want {
				if !bytes.Contains(out, []byte(one)) {
					return false
				}
			}
			return err == nil
		}
	}
	failed := []string{"bad-parked", "bad-tier", "bad-inbox"}
	await(t, "what fails is in quarantine", says(failed, "quarantine", "list"))
	for _, id := range []string{"good-parked", "good-inbox", "good-relayed"} {
		await(t, id+" is delivered", says([]string{"delivered"}, "get", id))
	}
	await(t, "one is cancelled", says([]string{"cancelled"}, "get", "never"))
	await(t, "one is listed", says([]string{"later"}, "list"))
	await(t, "statistics", says([]string{"parked", "quarantine"}, "stats"))
	await(t, "top", says([]string{"parked"}, "top", "--once", "-o", "json"))
	commandEnds(t, operator, cli.ExitOK, "quarantine", "show", "bad-tier")
	commandEnds(t, operator, cli.ExitOK, "quarantine", "replay", "bad-tier")
	await(t, "what was replayed has failed again", says(failed, "quarantine", "list"))
	commandEnds(t, operator, cli.ExitOK, "quarantine", "purge", "bad-tier")
	commandEnds(t, operator, cli.ExitFailed, "get", "--group", "nobody")
	commandEnds(t, manager, cli.ExitOK, "cancel", "--group", "nobody", "--reason", "a test")
	commandEnds(t, manager, cli.ExitOK, "erase", "later", "bad-inbox")
	await(t, "what was done is in the audit log", says([]string{
		`"action":"quarantine replay"`, `"action":"quarantine purge"`, `"action":"cancel"`, `"outcome":{"removed from quarantine":1,"removed from redis":2}`,
	}, "audit", "-o", "jsonl"))
	report, _ := command(t, operator, "doctor").CombinedOutput() // exits with what it finds
	for _, lacking := range []string{"NOPERM", "tag monitoring", "redis-refused", "broker-refused", "management-refused"} {
		if bytes.Contains(report, []byte(lacking)) {
			t.Errorf("doctor lacks something (%s):\n%s", lacking, report)
		}
	}
	for name, w := range map[string]*watched{"bridge": bridge, "consumer": consumer, "relay": relay} {
		for _, refused := range []string{"NOPERM", "ACCESS_REFUSED", "executing the script"} {
			if strings.Contains(w.output.String(), refused) {
				t.Errorf("the %s was refused something:\n%s", name, w.output)
			}
		}
	}
}

// commandEnds runs the program, and wants an exit code.
func commandEnds(t *testing.T, vars map[string]string, code int, args ...string) {
	t.Helper()
	cmd := command(t, vars, args...)
	said, _ := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("%s: exit code %d, want %d: %s", strings.Join(args, " "), got, code, said)
	}
}

// onChannel does something as the user of the settings, and returns why it was refused.
func onChannel(t *testing.T, vars map[string]string, do func(*amqp.Channel) error) error {
	t.Helper()
	conn, err := amqp.Dial(vars["DELAYBRIDGE_AMQP_URL"])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return do(ch)
}

// publishAs returns nil once the broker has confirmed a message.
func publishAs(t *testing.T, vars map[string]string, exchange, key, id string, delay int64) error {
	t.Helper()
	return onChannel(t, vars, func(ch *amqp.Channel) error {
		if err := ch.Confirm(false); err != nil {
			return err
		}
		closed, confirmed := ch.NotifyClose(make(chan *amqp.Error, 1)), ch.NotifyPublish(make(chan amqp.Confirmation, 1))
		if err := ch.PublishWithContext(t.Context(), exchange, key, false, false, amqp.Publishing{
			MessageId: id, DeliveryMode: amqp.Persistent, Headers: amqp.Table{"x-delay": delay},
		}); err != nil {
			return err
		}
		select {
		case reason := <-closed:
			return reason
		case c, ok := <-confirmed:
			if !ok {
				return <-closed
			}
			if !c.Ack {
				return errors.New("not stored")
			}
			return nil
		case <-time.After(servePatience):
			return errors.New("no answer")
		}
	})
}

// What is not of a role's work is refused, each act by itself.
func TestEachRoleMayNothingElse(t *testing.T) {
	t.Parallel()
	vars := scriptEnv(t)
	vars["DELAYBRIDGE_ENTRIES"] = "orders=direct"
	applyTopology(t, vars)
	prefix := vars["DELAYBRIDGE_PREFIX"]
	if err := onChannel(t, vars, func(ch *amqp.Channel) error {
		for _, queue := range []string{"billing", "theirs"} {
			if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
				return err
			}
		}
		return ch.ExchangeDeclare("theirs", "fanout", true, false, false, false, nil)
	}); err != nil {
		t.Fatal(err)
	}
	if err := publishAs(t, vars, prefix+".quarantine", "theirs", "poison", 0); err != nil {
		t.Fatal(err)
	}
	users := map[string]map[string]string{
		"publisher": roleUser(t, vars, "publisher"), "bridge": roleUser(t, vars, "bridge"),
		"consumer": roleUser(t, vars, "consumer", "--queue", "billing"),
		"operator": roleUser(t, vars, "operator", "--queue", "billing"), "relay": roleUser(t, vars, "relay", "--entry", "orders"),
	}
	ours := func(names string) (all []string) {
		for name := range strings.FieldsSeq(names) {
			all = append(all, prefix+"."+name)
		}
		return all
	}
	type forbidden struct{ write, read, configure, bind, redis []string }
	state, layout := "{"+prefix+":0}:state", "{"+prefix+"}:layout"
	anybody := []string{
		"FLUSHDB", "KEYS *", "CONFIG SET appendonly no", "ACL LIST", "SHUTDOWN NOSAVE", "SCRIPT FLUSH", "CLIENT LIST",
		"HSET {another:0}:state owner me", "HGETALL {another}:layout", "HGETALL " + prefix + ":other", "PUBLISH another:wake 0",
	}
	everything := "inbox command quarantine unrouted retry ready ready.orders tier.1s tier.30s lane.1s.0 entry entry.orders"
	without := func(names string, but ...string) string {
		var left []string
		for name := range strings.FieldsSeq(names) {
			if !strings.Contains(" "+strings.Join(but, " ")+" ", " "+name+" ") {
				left = append(left, name)
			}
		}
		return strings.Join(left, " ")
	}
	queues := "inbox command quarantine unrouted tier.1s lane.1s.0"
	for role, f := range map[string]forbidden{
		"publisher": {
			write: append(ours(without(everything, "entry")), "amq.topic", "theirs", ""),
			read:  append(ours(queues), "billing"), configure: append(ours("inbox mine"), "mine"), bind: ours("ready retry"),
			redis: append([]string{"DEL " + state, "HDEL " + layout + " owner", "ZRANGE {" + prefix + ":0}:claimed 0 -1", "HKEYS " + state}, anybody...),
		},
		"bridge": {
			write: []string{"amq.topic", "theirs", ""}, read: []string{"theirs"}, configure: []string{"mine", "theirs"}, redis: anybody,
		},
		"consumer": {
			write: append(ours(without(everything, "quarantine")), "amq.topic", "theirs", ""),
			read:  append(ours(queues), "theirs"), configure: append(ours("inbox mine"), "theirs", "mine"),
			bind: append(ours("ready.orders inbox quarantine entry"), "theirs", "amq.topic"),
			redis: append([]string{
				"DEL " + state, "SMEMBERS {" + prefix + ":0}:schedule", "HDEL " + layout + " owner", "SET " + layout + " x", "GET another:ledger:x",
			}, anybody...),
		},
		"operator": {
			write: append(ours("inbox command quarantine unrouted tier.1s lane.1s.0"), "amq.topic", "theirs", ""),
			read:  append(ours("inbox command tier.1s lane.1s.0"), "theirs", "billing"), configure: append(ours("inbox mine"), "billing", "mine"),
			bind: ours("ready entry"),
			redis: append([]string{
				"DEL " + state, "HSET " + state + " owner me", "EVAL return 1 " + state, "EVALSHA 0 1 " + state, "SET " + layout + " x",
				"XADD " + state + " * a b", "DEL {" + prefix + "}:audit", "XTRIM {" + prefix + "}:audit MAXLEN 0",
			}, anybody...),
		},
		"relay": {
			write: append(ours(without(everything, "ready.orders")), "amq.topic", "theirs", ""),
			read:  append(ours(queues), "billing"), configure: append(ours("inbox mine"), "mine"), bind: ours("ready retry"),
			redis: append([]string{"DEL " + state, "HDEL " + layout + " owner", "HKEYS " + state}, anybody...),
		},
	} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			user := users[role]
			try := func(what string, err error) {
				t.Helper()
				if refused, ok := errors.AsType[*amqp.Error](err); !ok || refused.Code != amqp.AccessRefused {
					t.Errorf("%s: %v; want it refused", what, err)
				}
			}
			for _, exchange := range f.write {
				try("publish to "+exchange, publishAs(t, user, exchange, "theirs", "o-1", 60_000))
			}
			for _, queue := range f.read {
				try("get from "+queue, onChannel(t, user, func(ch *amqp.Channel) error { _, _, err := ch.Get(queue, false); return err }))
				try("consume "+queue, onChannel(t, user, func(ch *amqp.Channel) error {
					_, err := ch.Consume(queue, "", false, false, false, false, nil)
					return err
				}))
				try("purge "+queue, onChannel(t, user, func(ch *amqp.Channel) error { _, err := ch.QueuePurge(queue, false); return err }))
			}
			for _, name := range f.configure {
				try("declare queue "+name, onChannel(t, user, func(ch *amqp.Channel) error {
					_, err := ch.QueueDeclare(name, true, false, false, false, nil)
					return err
				}))
				try("delete queue "+name, onChannel(t, user, func(ch *amqp.Channel) error { _, err := ch.QueueDelete(name, false, false, false); return err }))
				try("declare exchange "+name, onChannel(t, user, func(ch *amqp.Channel) error {
					return ch.ExchangeDeclare(name, "fanout", true, false, false, false, nil)
				}))
			}
			for _, exchange := range f.bind {
				try("bind billing to "+exchange, onChannel(t, user, func(ch *amqp.Channel) error { return ch.QueueBind("billing", "#", exchange, false, nil) }))
			}
			client := servertest.OpenRedis(t, user["DELAYBRIDGE_REDIS_URL"])
			for _, command := range f.redis {
				var words []any
				for word := range strings.FieldsSeq(command) {
					words = append(words, word)
				}
				if err := client.Do(t.Context(), words...).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM ") {
					t.Errorf("%s: %v; want it refused", command, err)
				}
			}
			// Whatever a script would do, its caller has to be permitted.
			evaluate := map[string]string{"operator": "EVAL_RO"}[role]
			err := client.Do(t.Context(), cmp.Or(evaluate, "EVAL"), "return redis.call('DEL', KEYS[1])", 1, "{another:0}:state").Err()
			if err == nil || !strings.HasPrefix(err.Error(), "NOPERM ") {
				t.Errorf("a script under another prefix: %v; want it refused", err)
			}
			err = client.Do(t.Context(), cmp.Or(evaluate, "EVAL"), "return redis.call('GETDEL', KEYS[1])", 1, state).Err()
			if err == nil || !strings.Contains(err.Error(), "can't run this command") && !strings.Contains(err.Error(), "no permissions") && !strings.Contains(err.Error(), "Write commands are not allowed") {
				t.Errorf("a script that removes a key: %v; want it refused", err)
			}
		})
	}
	t.Run("commands", func(t *testing.T) {
		t.Parallel()
		for _, tc := range []struct {
			role string
			code int
			args string
		}{
			{"publisher", cli.ExitUsage, "publish --id now --key order.unpaid --in 0s"},
			{"publisher", cli.ExitUsage, "publish --id tier --key order.unpaid --in 1s --untracked"},
			{"publisher", cli.ExitUsage, "topology delete"},
			{"publisher", cli.ExitUsage, "quarantine list"},
			{"publisher", cli.ExitUsage, "list"},
			{"consumer", cli.ExitUsage, "consume --queue theirs --count 1"},
			{"consumer", cli.ExitUsage, "consume --queue mine --bind order.# --count 1"},
			{"consumer", cli.ExitUsage, "quarantine purge --all --yes"},
			{"operator", cli.ExitUsage, "cancel o-1"},
			{"operator", cli.ExitUsage, "reschedule o-1 --in 1h"},
			{"operator", cli.ExitUsage, "topology apply --prefix " + prefix + "-another"},
			{"relay", cli.ExitUsage, "quarantine list"},
		} {
			user := users[tc.role]
			cmd := command(t, user, strings.Fields(tc.args)...)
			said, _ := cmd.CombinedOutput()
			text := string(said)
			if code := cmd.ProcessState.ExitCode(); code == cli.ExitOK || !saysRefused(text) {
				t.Errorf("%s as %s: exit code %d: %s", tc.args, tc.role, code, text)
			}
		}
	})
}

func saysRefused(text string) bool {
	return strings.Contains(text, "NOPERM") || strings.Contains(text, "ACCESS_REFUSED") || strings.Contains(text, "is refused (Not management user)")
}

// The permissions alone can be imported, and are those of the commands.
func TestPermissionsAsDefinitions(t *testing.T) {
	t.Parallel()
	vars := scriptEnv(t)
	user := vars["DELAYBRIDGE_PREFIX"] + "-relay"
	roleUser(t, vars, "relay")
	vhost, err := amqp.ParseURI(vars["DELAYBRIDGE_AMQP_URL"])
	if err != nil {
		t.Fatal(err)
	}
	one := "/api/permissions/" + vhost.Vhost + "/" + user
	ask := func(method, path, body string) string {
		t.Helper()
		answer, err := rabbitmq.Manage(t.Context(), vars["DELAYBRIDGE_MANAGEMENT_URL"], method, path, body)
		if err != nil {
			t.Fatal(err)
		}
		return string(answer)
	}
	before := ask(http.MethodGet, one, "")
	ask(http.MethodDelete, one, "")
	code, printed, said := runIn(t, vars, "permissions", "--role", "relay", "-o", "definitions")
	if code != cli.ExitOK {
		t.Fatal(said)
	}
	ask(http.MethodPost, "/api/definitions", printed)
	if after := ask(http.MethodGet, one, ""); after != before {
		t.Errorf("%s\nwas %s", after, before)
	}
}

// topologyResource has the fields of the operator's User and Permission, api/v1beta1.
type topologyResource struct {
	APIVersion string        `yaml:"apiVersion"`
	Kind       string        `yaml:"kind"`
	Metadata   resourceNamed `yaml:"metadata"`
	Spec       struct {
		Tags        []string      `yaml:"tags"`
		Secret      resourceNamed `yaml:"importCredentialsSecret"`
		User        resourceNamed `yaml:"userReference"`
		VHost       string        `yaml:"vhost"`
		Permissions struct {
			Configure string `yaml:"configure"`
			Write     string `yaml:"write"`
			Read      string `yaml:"read"`
		} `yaml:"permissions"`
		Cluster resourceNamed `yaml:"rabbitmqClusterReference"`
	} `yaml:"spec"`
}

type resourceNamed struct {
	Name string `yaml:"name"`
}

// The resources for Kubernetes give a user what the commands give it.
func TestPermissionsForKubernetes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ vhost, prefix, args string }{
		{"/", "shop.eu", "--role publisher --entry orders --entry="},
		{"on", "shop", "--role bridge --user 1.5"},
		{`a "b"\c: #1`, "shop", "--role consumer --queue billing+x --queue true"},
		{"/", "shop", "--role operator --queue billing --user null"},
		{"~", "shop", "--role relay"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"permissions"}, strings.Split(tc.args, " ")...)
			vars := map[string]string{
				"DELAYBRIDGE_AMQP_URL": "amqp://127.0.0.1:1/" + url.PathEscape(tc.vhost), "DELAYBRIDGE_PREFIX": tc.prefix, "DELAYBRIDGE_ENTRIES": "orders=direct",
			}
			code, commands, said := runIn(t, vars, args...)
			if code != cli.ExitOK {
				t.Fatal(said)
			}
			code, printed, said := runIn(t, vars, append(args, "-o", "kubernetes", "--cluster", "0x10")...)
			if code != cli.ExitOK {
				t.Fatal(said)
			}
			decoder := yaml.NewDecoder(strings.NewReader(printed), yaml.Strict())
			var user, permission, more topologyResource
			if err := errors.Join(decoder.Decode(&user), decoder.Decode(&permission)); err != nil {
				t.Fatal(err)
			}
			if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
				t.Errorf("more is printed: %+v (%v)", more, err)
			}
			name := user.Metadata.Name
			if user.APIVersion+user.Kind != "rabbitmq.com/v1beta1User" || user.Spec.Secret.Name != name || user.Spec.Cluster.Name != "0x10" {
				t.Errorf("the user is %+v", user)
			}
			if permission.APIVersion+permission.Kind != "rabbitmq.com/v1beta1Permission" || permission.Spec.User.Name != name || permission.Spec.Cluster.Name != "0x10" {
				t.Errorf("the permission is %+v", permission)
			}
			p := permission.Spec
			want := [][]string{
				{"rabbitmqctl", "add_user", name, "PASSWORD"},
				append([]string{"rabbitmqctl", "set_user_tags", name}, user.Spec.Tags...),
				{"rabbitmqctl", "set_permissions", "-p", p.VHost, name, p.Permissions.Configure, p.Permissions.Write, p.Permissions.Read},
			}
			if got := wordsOf(t, commands); fmt.Sprintf("%q", got[:3]) != fmt.Sprintf("%q", want) {
				t.Errorf("the commands are\n%q, the resources\n%q", got[:3], want)
			}
		})
	}
}

func TestPermissionsUsage(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":                                          "--role is missing: use publisher, bridge, consumer, operator or relay",
		"--role x":                                  `--role "x": use publisher, bridge, consumer, operator or relay`,
		"--role consumer":                           "--queue is missing: name each queue that the consumer consumes",
		"--role bridge --entry a":                   `--entry "a": a role bridge has no entries: leave it out`,
		"--role publisher --entry a":                `--entry "a" is not configured: use one of the setting entries`,
		"--role relay --queue a":                    `--queue "a": a role relay has no queues: leave it out`,
		"--role bridge --user a\tb":                 `--user "a\tb": use a name without blanks`,
		"--role bridge --user=":                     `--user "": name a user, or leave it out`,
		"--role bridge -o json":                     `--output "json": use commands, definitions, kubernetes`,
		"--role bridge -o kubernetes":               "--cluster is missing: name the RabbitmqCluster",
		"--role bridge --cluster mq":                `--cluster "mq": only with -o kubernetes`,
		"--role bridge -o kubernetes --cluster a_b": `--cluster "a_b": with -o kubernetes use lower-case letters, digits, '-' and '.'`,
		"--role bridge -o kubernetes --cluster mq --user Shop": `--user "Shop": with -o kubernetes use lower-case letters`,
		"--role consumer --queue=":                             `--queue "": use 1 to 255 bytes`,
		"--role bridge --amqp-url x://y":                       "AMQP",
		"--role consumer --queue delaybridge.inbox":            `--queue "delaybridge.inbox" is the bridge's: name one of a consumer`,
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			var args []string
			if line != "" {
				args = strings.Split(line, " ")
			}
			code, stdout, stderr := runIn(t, nil, append([]string{"permissions"}, args...)...)
			if code != cli.ExitUsage || !strings.Contains(stderr, want) || stdout != "" {
				t.Errorf("exit code %d, %q, %q; want %q", code, stdout, stderr, want)
			}
		})
	}
	// It asks no server.
	code, stdout, stderr := runIn(t, map[string]string{"DELAYBRIDGE_AMQP_URL": "amqp://a:b@127.0.0.1:1/my%20shop", "DELAYBRIDGE_REDIS_URL": "redis://127.0.0.1:1"},
		"permissions", "--role", "publisher", "--user", "shop")
	if want := fmt.Sprintf("rabbitmqctl set_permissions -p 'my shop' shop '^$' %s '^$'\n", `'^delaybridge\.entry$'`); code != cli.ExitOK || !strings.Contains(stdout, want) {
		t.Errorf("exit code %d, %s%s; want %s", code, stdout, stderr, want)
	}
}
