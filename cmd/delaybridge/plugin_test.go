package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/migration"
	"github.com/delaybridge/delaybridge/internal/servers/rabbitmq"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

//go:embed testdata/x-delayed-message.erl
var standIn string

// pluginLab is a RabbitMQ of its own with a stand-in for the retired plugin,
// which nobody can install any more. So the management API shows what it did,
// and the old exchanges route. On 4.3, where the plugin itself cannot run, the
// stand-in can, but for the type topic, which routes by the name of its own type.
type pluginLab struct {
	server *rabbitmq.Node
	conn   *amqp.Connection
	env    map[string]string
}

func newPluginLab(t *testing.T) *pluginLab {
	t.Helper()
	return pluginLabOn(t, servertest.RabbitMQForTest(t))
}

func pluginLabOn(t *testing.T, server *rabbitmq.Node) *pluginLab {
	t.Helper()
	l := &pluginLab{server: server}
	if _, err := l.server.Control(t.Context(), "eval", `
		{ok, Tokens, _} = erl_scan:string(`+strconv.Quote(standIn)+`),
		Split = fun
			F([], _, Forms) -> lists:reverse(Forms);
			F([{dot, _} = Dot | Rest], Form, Forms) -> F(Rest, [], [lists:reverse([Dot | Form]) | Forms]);
			F([Token | Rest], Form, Forms) -> F(Rest, [Token | Form], Forms)
		end,
		Forms = [begin {ok, Form} = erl_parse:parse_form(F), Form end || F <- Split(Tokens, [], [])],
		{ok, Module, Binary} = compile:forms(Forms),
		rpc:multicall(code, load_binary, [Module, "stand-in", Binary]),
		rpc:multicall(Module, start, []),
		rpc:multicall(rabbit_registry, register, [exchange, <<"x-delayed-message">>, Module]).`); err != nil {
		t.Fatal(err)
	}
	conn, err := amqp.Dial(l.server.AMQPURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	l.conn = conn
	l.env = map[string]string{
		"DELAYBRIDGE_AMQP_URL": l.server.AMQPURL(), "DELAYBRIDGE_MANAGEMENT_URL": l.server.ManagementURL(),
		"DELAYBRIDGE_TIERS": "1s,30s", "DELAYBRIDGE_LEAD": "1s", "DELAYBRIDGE_SHARDS": "1",
	}
	return l
}

// statistics has the broker count in that mode, and each second instead of every five.
func (l *pluginLab) statistics(t *testing.T, ratesMode string) {
	t.Helper()
	if _, err := l.server.Control(t.Context(), "eval", `
		application:set_env(rabbit, collect_statistics_interval, 1000),
		application:set_env(rabbitmq_management_agent, rates_mode, `+ratesMode+`),
		Often = [{Policy, [{600, 1}]} || Policy <- [global, basic, detailed]],
		[application:set_env(A, sample_retention_policies, Often) || A <- [rabbitmq_management, rabbitmq_management_agent]],
		[application:stop(A) || A <- [rabbitmq_management, rabbitmq_management_agent]],
		[ok = application:start(A) || A <- [rabbitmq_management_agent, rabbitmq_management]].`); err != nil {
		t.Fatal(err)
	}
}

func (l *pluginLab) channel(t *testing.T) *amqp.Channel {
	t.Helper()
	ch, err := l.conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func (l *pluginLab) exchange(t *testing.T, name, kind string) {
	t.Helper()
	if err := l.channel(t).ExchangeDeclare(name, migration.PluginType, true, false, false, false, amqp.Table{"x-delayed-type": kind}); err != nil {
		t.Fatal(err)
	}
}

// queue declares a quorum queue that is bound to exchange.
func (l *pluginLab) queue(t *testing.T, name, exchange, key string, args amqp.Table) {
	t.Helper()
	ch := l.channel(t)
	if _, err := ch.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind(name, key, exchange, false, args); err != nil {
		t.Fatal(err)
	}
}

// migrate runs the command in this process, and returns the plan it prints.
func (l *pluginLab) migrate(t *testing.T, args ...string) migration.Plan {
	t.Helper()
	code, stdout, stderr := runIn(t, l.env, append([]string{"migrate", "-o", "json"}, args...)...)
	if code != cli.ExitOK {
		t.Fatalf("migrate %v: exit code %d: %s", args, code, stderr)
	}
	var plan migration.Plan
	if err := json.Unmarshal([]byte(stdout), &plan); err != nil {
		t.Fatal(err)
	}
	return plan
}

// everything is what the broker has, apart from statistics.
func (l *pluginLab) everything(t *testing.T) string {
	t.Helper()
	answer, err := rabbitmq.Manage(t.Context(), l.server.ManagementURL(), http.MethodGet, "/api/definitions", "")
	if err != nil {
		t.Fatal(err)
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(answer, &raw); err != nil {
		t.Fatal(err)
	}
	all := map[string][]any{}
	for _, kind := range []string{"exchanges", "queues", "bindings"} {
		var list []any
		if err := json.Unmarshal(raw[kind], &list); err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		all[kind] = list
	}
	return fmt.Sprint(all)
}

// names are those of all exchanges or queues, sorted.
func (l *pluginLab) names(t *testing.T, kind string) (names []string) {
	t.Helper()
	var list []struct {
		Name string `json:"name"`
	}
	l.list(t, kind, &list)
	for _, item := range list {
		names = append(names, item.Name)
	}
	slices.Sort(names)
	return names
}

// bindings are all of exchanges, but the default one, in words, sorted.
func (l *pluginLab) bindings(t *testing.T) (bindings []string) {
	t.Helper()
	var list []struct {
		Source      string `json:"source"`
		Destination string `json:"destination"`
		Key         string `json:"routing_key"`
	}
	l.list(t, "bindings", &list)
	for _, b := range list {
		if b.Source != "" {
			bindings = append(bindings, b.Source+" -> "+b.Destination+" by "+b.Key)
		}
	}
	slices.Sort(bindings)
	return bindings
}

func (l *pluginLab) list(t *testing.T, kind string, into any) {
	t.Helper()
	answer, err := rabbitmq.Manage(t.Context(), l.server.ManagementURL(), http.MethodGet, "/api/"+kind, "")
	if err == nil {
		err = json.Unmarshal(answer, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (l *pluginLab) lookupEnv(name string) (string, bool) {
	value, ok := l.env[name]
	return value, ok
}

func (l *pluginLab) publish(t *testing.T, exchange, key string, headers amqp.Table) {
	t.Helper()
	ch := l.channel(t)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	c, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), exchange, key, false, false,
		amqp.Publishing{DeliveryMode: amqp.Persistent, Headers: maps.Clone(headers)})
	if err != nil || !c.Wait() {
		t.Fatalf("publish to %s: %v", exchange, err)
	}
}

// await takes a message out of a queue.
func (l *pluginLab) await(t *testing.T, queue string) {
	t.Helper()
	ch := l.channel(t)
	awaitThat(t, "a message in "+queue, func() bool {
		_, ok, err := ch.Get(queue, true)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	})
}

// only takes a message out of a queue, and expects no other one anywhere.
func (l *pluginLab) only(t *testing.T, queue string) {
	t.Helper()
	l.await(t, queue)
	ch := l.channel(t)
	for _, other := range []string{queue, "delaybridge.unrouted", "delaybridge.inbox", "delaybridge.quarantine", "delaybridge.tier.1s"} {
		d, ok, err := ch.Get(other, true)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			t.Errorf("another message in %s: %v", other, d.Headers)
		}
	}
}
