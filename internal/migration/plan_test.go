package migration_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/migration"
	"github.com/delaybridge/delaybridge/topology"
)

// of are options with those entries configured.
func of(t testing.TB, entries ...topology.Entry) migration.Options {
	t.Helper()
	top, err := topology.New(topology.Config{Entries: entries})
	if err != nil {
		t.Fatal(err)
	}
	return migration.Options{Topology: top, Management: "http://localhost:15672"}
}

// plan plans from a file of testdata, or from JSON.
func plan(t testing.TB, source string, o migration.Options) *migration.Plan {
	t.Helper()
	file := []byte(source)
	if !strings.Contains(source, "{") {
		var err error
		if file, err = os.ReadFile("testdata/" + source); err != nil {
			t.Fatal(err)
		}
	}
	d, err := migration.Parse(file, "")
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.Plan(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// inWords is what a plan moves, binds, and has found: one line each.
func inWords(p *migration.Plan) (lines []string) {
	for _, m := range p.Exchanges {
		lines = append(lines, fmt.Sprintf("%s %s: %s, %s", m.Type, m.Exchange, m.EntryExchange, m.ReadyExchange))
	}
	for _, b := range p.Bindings {
		lines = append(lines, fmt.Sprintf("%s -> %s %s [%s] %v", b.Source, b.DestinationKind, b.Destination, b.Key, b.Arguments))
	}
	for _, f := range p.Findings {
		lines = append(lines, fmt.Sprintf("%s: %s %s", f.Exchange, f.Kind, f.Name))
	}
	return lines
}

func TestPlanOfExports(t *testing.T) {
	t.Parallel()
	for file, want := range map[string][]string{
		"broker-3.8.json": {
			"headers audit: delaybridge.entry.audit, delaybridge.ready.audit",
			"direct orders: delaybridge.entry.orders, delaybridge.ready.orders",
			"delaybridge.ready.audit -> queue mail [] map[factor:1.5 shop:7 urgent:true x-match:all]",
			"delaybridge.ready.orders -> queue unpaid [order.unpaid] map[]",
			"delaybridge.ready.orders -> exchange delaybridge.ready.audit [order.unpaid] map[]",
			"sharded: exchange sharded",
			"orders: binding orders -> sharded (routing key order.unpaid)",
			"audit: policy federated",
			"orders: binding events -> orders (routing key order.#)",
			"orders: queue refused",
			"orders: policy retries",
			"orders: exchange events",
			"orders: policy federated",
			"orders: shovel from-legacy",
			"orders: topic permission app",
			": permission app",
		},
		"vhost-3.12.json": {
			"topic mail out: delaybridge.entry.mail-out-92a558bf, delaybridge.ready.mail-out-92a558bf",
			"fanout mail-out: delaybridge.entry.mail-out, delaybridge.ready.mail-out",
			"delaybridge.ready.mail-out-92a558bf -> queue mail [mail.#] map[]",
			"delaybridge.ready.mail-out -> queue mail [] map[]",
			"untyped: exchange untyped",
			"mail out: exchange mail out", // its name
			"mail out: exchange mail out", // not durable
			"mail out: exchange mail out", // auto-delete
			"mail out: exchange mail out", // internal
			"mail out: policy alternate",
			"mail-out: policy alternate",
		},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			p := plan(t, file, of(t))
			got := inWords(p)
			for i := range max(len(got), len(want)) {
				if i >= len(got) || i >= len(want) || got[i] != want[i] {
					t.Fatalf("line %d differs; got\n%s", i, strings.Join(got, "\n"))
				}
			}
			for _, f := range p.Findings {
				if f.Why == "" || f.Do == "" {
					t.Errorf("%+v says not why, or not what to do", f)
				}
			}
		})
	}
}

func TestCommandsToCopy(t *testing.T) {
	t.Parallel()
	var got []string
	for _, f := range plan(t, "broker-3.8.json", of(t)).Findings {
		got = append(got, f.Commands...)
	}
	want := []string{
		`curl -u USER -H 'content-type: application/json' -X POST http://localhost:15672/api/bindings/shop/e/delaybridge.ready/e/delaybridge.ready.orders -d '{"arguments":{},"routing_key":"order.#"}'`,
		`curl -u USER -H 'content-type: application/json' -X POST http://localhost:15672/api/bindings/shop/e/events/e/delaybridge.entry.orders -d '{"arguments":{},"routing_key":"order.#"}'`,
		`curl -u USER -X DELETE http://localhost:15672/api/bindings/shop/e/events/e/orders/order.%2523`,
		`rabbitmqctl set_permissions -p shop app '' '^(orders|mail)$|^delaybridge\.entry\.orders$' '^unpaid|^orders$|^delaybridge\.ready\.orders$'`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestArgumentsBecomeAMQPs(t *testing.T) {
	t.Parallel()
	for _, b := range plan(t, "broker-3.8.json", of(t)).Wanted() {
		if b.Source != "delaybridge.ready.audit" {
			continue
		}
		want := amqp.Table{"x-match": "all", "shop": int64(7), "factor": 1.5, "urgent": true}
		if fmt.Sprintf("%#v", b.Args) != fmt.Sprintf("%#v", want) {
			t.Errorf("got %#v, want %#v", b.Args, want)
		}
		return
	}
	t.Error("no binding of audit")
}

// names is a file of one virtual host with exchanges of type direct.
func names(exchanges ...string) string {
	list := make([]string, len(exchanges))
	for i, name := range exchanges {
		list[i] = fmt.Sprintf(`{"name":%q,"type":"x-delayed-message","durable":true,"arguments":{"x-delayed-type":"direct"}}`, name)
	}
	return `{"exchanges":[` + strings.Join(list, ",") + `]}`
}

func TestEntriesAreNamedAfterTheirExchanges(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what   string
		source string
		with   func(*migration.Options)
		want   string // the setting
	}{
		{what: "its own name", source: names("orders", "b.c_d-1"), want: "b.c_d-1=direct,orders=direct"},
		{what: "letters that are not allowed", source: names("a b", ".x"), want: "a-b=direct,x=direct"},
		{what: "nothing that is allowed", source: names("ж"), want: "delayed=direct"},
		{what: "the same name made of two", source: names("a b", "a/b"), want: "a-b=direct,a-b-c14cddc0=direct"},
		{what: "only one of them", source: names("a b", "a/b"), want: "a-b-c14cddc0=direct", with: func(o *migration.Options) { o.Exchanges = []string{"a/b"} }},
		{what: "chosen", source: names("orders", "mail"), want: "mail=direct,new=direct", with: func(o *migration.Options) { o.Names = map[string]string{"orders": "new"} }},
		{what: "chosen, another's name", source: names("orders", "mail"), want: "mail=direct,mail-00d8d3f1=direct", with: func(o *migration.Options) { o.Names = map[string]string{"orders": "mail"} }},
		{what: "configured", source: names("orders"), want: "audit=fanout,orders=direct", with: func(o *migration.Options) {
			o.Topology = of(t, topology.Entry{Name: "orders", Kind: "direct"}, topology.Entry{Name: "audit", Kind: "fanout"}).Topology
		}},
		{what: "configured with another type", source: names("orders"), want: "orders=fanout,orders-1c168adb=direct", with: func(o *migration.Options) {
			o.Topology = of(t, topology.Entry{Name: "orders", Kind: "fanout"}).Topology
		}},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			o := of(t)
			if test.with != nil {
				test.with(&o)
			}
			if got := plan(t, test.source, o).Setting; got != test.want {
				t.Errorf("entries %s, want %s", got, test.want)
			}
		})
	}
}

// A second run finds what the first one has created.
func TestLiveStates(t *testing.T) {
	t.Parallel()
	plugin := migration.Exchange{Name: "orders", Type: migration.PluginType, Durable: true, Arguments: migration.Table{"x-delayed-type": "direct"}}
	old := migration.Binding{Source: "orders", Destination: "unpaid", DestinationType: "queue", RoutingKey: "k", Arguments: migration.Table{}}
	d := migration.Definitions{Live: true, VHost: "/", Exchanges: []migration.Exchange{plugin}, Bindings: []migration.Binding{old}}
	p, err := d.Plan(of(t))
	if err != nil {
		t.Fatal(err)
	}
	if p.Exchanges[0].State != "create" || p.Bindings[0].State != "create" || !strings.HasPrefix(p.Next[0], "create all this") {
		t.Errorf("first run: %+v", p)
	}
	bound := old
	bound.Source, bound.Arguments = "delaybridge.ready.orders", nil
	d.Bindings = append(d.Bindings, bound)
	d.Exchanges = append(d.Exchanges, migration.Exchange{Name: "delaybridge.entry.orders"}, migration.Exchange{Name: "delaybridge.ready.orders"})
	if p, err = d.Plan(of(t)); err != nil {
		t.Fatal(err)
	}
	if p.Exchanges[0].State != "exists" || p.Bindings[0].State != "exists" || strings.HasPrefix(p.Next[0], "create all this") {
		t.Errorf("second run: %+v", p)
	}
}

func TestQueuesThatVanish(t *testing.T) {
	t.Parallel()
	d := migration.Definitions{Live: true, Exchanges: []migration.Exchange{{
		Name: "orders", Type: migration.PluginType, Durable: true, Arguments: migration.Table{"x-delayed-type": "direct"},
	}}, Queues: []migration.Queue{{Name: "exclusive", Exclusive: true}, {Name: "transient"}, {Name: "kept", Durable: true}}}
	for _, q := range d.Queues {
		d.Bindings = append(d.Bindings, migration.Binding{Source: "orders", Destination: q.Name, DestinationType: "queue"})
	}
	p, err := d.Plan(of(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Bindings) != 2 || p.Bindings[0].Destination != "transient" || p.Bindings[1].Destination != "kept" {
		t.Errorf("bindings %+v, want all but that of the exclusive queue", p.Bindings)
	}
	if len(p.Findings) != 2 || !strings.Contains(p.Findings[0].Why, "exclusive") || !strings.Contains(p.Findings[1].Why, "transient") {
		t.Errorf("findings %+v, want the exclusive and the transient queue", p.Findings)
	}
}

func TestInputThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	several := `{"vhosts":[{"name":"/"}],"exchanges":[{"name":"a","vhost":"a","type":"x-delayed-message"},{"name":"b","vhost":"b","type":"x-delayed-message"}]}`
	for what, test := range map[string]struct {
		file, vhost string
		with        func(*migration.Options)
		want        []string
	}{
		"not JSON":              {file: "definitions", want: []string{"not JSON", "rabbitmqctl export_definitions"}},
		"compressed":            {file: "\x1f\x8b\x08", want: []string{"compressed", "gunzip"}},
		"a list":                {file: "[]", want: []string{"not JSON as RabbitMQ exports it"}},
		"other JSON":            {file: "{}", want: []string{`no "exchanges"`}},
		"cut off":               {file: `{"exchanges":[{"name":"a"`, want: []string{"not JSON"}},
		"several virtual hosts": {file: several, want: []string{"--vhost", `"a", "b"`}},
		"unknown virtual host":  {file: several, vhost: "c", want: []string{`no virtual host "c"`, `"/", "a", "b"`}},
		"another virtual host":  {file: `{"original_vhost_name":"a","exchanges":[]}`, vhost: "c", want: []string{`"c"`, `"a"`}},
		"no such exchange": {file: names("a"), want: []string{`no exchange "b"`, `there is "a"`}, with: func(o *migration.Options) {
			o.Exchanges = []string{"b"}
		}},
		"no exchange of the plugin": {file: names(), want: []string{`no exchange "b"`, "nor any other"}, with: func(o *migration.Options) {
			o.Exchanges = []string{"b"}
		}},
		"another type": {file: `{"exchanges":[{"name":"b","type":"direct"}]}`, want: []string{`"b" is of type direct`}, with: func(o *migration.Options) {
			o.Exchanges = []string{"b"}
		}},
		"names": {file: names("a", "b"), want: []string{`entry "no way"`, `entry "x" is to take the place of both "b" and "c"`, `no exchange "c"`}, with: func(o *migration.Options) {
			o.Names = map[string]string{"a": "no way", "b": "x", "c": "x"}
		}},
		"a name that is taken": {file: names("a"), want: []string{`entry "x" is configured with type topic`, "--entry"}, with: func(o *migration.Options) {
			o.Names = map[string]string{"a": "x"}
			o.Topology = of(t, topology.Entry{Name: "x", Kind: "topic"}).Topology
		}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			o := of(t)
			if test.with != nil {
				test.with(&o)
			}
			d, err := migration.Parse([]byte(test.file), test.vhost)
			if err == nil {
				_, err = d.Plan(o)
			}
			if !errors.Is(err, migration.ErrInput) {
				t.Fatalf("error %v, want ErrInput", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is missing in: %v", want, err)
				}
			}
		})
	}
}

func TestRestHasEverythingElse(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("testdata/broker-3.8.json")
	if err != nil {
		t.Fatal(err)
	}
	rest, err := migration.Rest(file)
	if err != nil {
		t.Fatal(err)
	}
	d, err := migration.Parse(rest, "shop")
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Exchanges) != 1 || d.Exchanges[0].Name != "events" || len(d.Bindings) != 0 || len(d.Queues) != 3 || len(d.Policies) != 3 || len(d.Permissions) != 2 {
		t.Errorf("%s", rest)
	}
	for _, kept := range []string{`"password_hash": "x"`, `"max-queues": 1000`, `"rabbit@shop-1"`} {
		if !strings.Contains(string(rest), kept) {
			t.Errorf("%s is missing in %s", kept, rest)
		}
	}
}

func FuzzPlan(f *testing.F) {
	for _, name := range []string{"broker-3.8.json", "vhost-3.12.json"} {
		file, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(file)
	}
	f.Add([]byte(names("a b", "a/b", "ж", "")))
	f.Fuzz(func(t *testing.T, file []byte) {
		d, err := migration.Parse(file, "")
		if err != nil {
			return
		}
		o := of(t)
		p, err := d.Plan(o)
		if err != nil {
			t.Fatalf("without any wishes: %v", err)
		}
		entries, err := p.Entries(nil)
		if err != nil || len(entries) != len(p.Exchanges) {
			t.Fatalf("%d entries for %d exchanges (%v)", len(entries), len(p.Exchanges), err)
		}
		if _, err := topology.New(topology.Config{Entries: entries}); err != nil {
			t.Fatal(err)
		}
		for _, b := range p.Wanted() {
			if !slices.ContainsFunc(p.Exchanges, func(m migration.Move) bool { return m.ReadyExchange == b.Source }) {
				t.Fatalf("binding of %s, which is no ready exchange of the plan", b.Source)
			}
			if err := b.Args.Validate(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := migration.Rest(file); err != nil {
			t.Fatal(err)
		}
	})
}
