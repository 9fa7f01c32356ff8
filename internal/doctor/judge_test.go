package doctor_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/internal/doctor"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/topology"
)

func codes(findings []doctor.Finding) string {
	var all []string
	for _, f := range findings {
		all = append(all, f.Code)
	}
	return strings.Join(all, ",")
}

func TestVersionsAreJudged(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"3.9.29": "broker-version", "3.10.8": "", "3.13.7": "", "4.0.5": "", "4.3.6": "", "4.3.0-rc.1": "", "4.4.0": "broker-version", "unknown": "broker-version",
	} {
		findings := doctor.JudgeBrokerVersion("rabbit@one", version)
		if got := codes(findings); got != want {
			t.Errorf("RabbitMQ %s: %q, want %q", version, got, want)
		}
	}
	// What is too old does not work; what is too new has not been tried.
	for version, want := range map[string]doctor.Severity{"3.8.9": doctor.Problem, "4.4.0": doctor.Warning} {
		if got := doctor.JudgeBrokerVersion("rabbit@one", version)[0].Severity; got != want {
			t.Errorf("RabbitMQ %s: a %s, want a %s", version, got, want)
		}
	}
	for said, want := range map[[2]string]doctor.Severity{{"6.0.16", ""}: doctor.Problem, {"9.0.0", ""}: doctor.Warning, {"7.2.4", "7.2.4"}: doctor.Warning} {
		if got := doctor.JudgeRedis("Redis at one:6379", "redis-cli", map[string]string{"redis_version": said[0], "valkey_version": said[1]})[0].Severity; got != want {
			t.Errorf("Redis %s: a %s, want a %s", said, got, want)
		}
	}
	for _, test := range []struct{ redis, valkey, want string }{
		{"6.2.14", "", "redis-version"}, {"7.0.15", "", ""}, {"8.0.2", "", ""}, {"9.0.0", "", "redis-version"},
		{"7.2.4", "7.2.4", "redis-version"}, {"7.2.4", "8.1.1", ""}, {"7.2.4", "9.1.0", ""},
	} {
		got := codes(doctor.JudgeRedis("Redis at one:6379", "redis-cli", map[string]string{"redis_version": test.redis, "valkey_version": test.valkey}))
		if got != test.want {
			t.Errorf("Redis %s, Valkey %s: %q, want %q", test.redis, test.valkey, got, test.want)
		}
	}
}

func TestRedisStateIsJudged(t *testing.T) {
	t.Parallel()
	said := func(aof, status, snapshot string) map[string]string {
		return map[string]string{"redis_version": "7.0.15", "aof_enabled": aof, "aof_last_write_status": status, "rdb_last_bgsave_status": snapshot}
	}
	for _, test := range []struct {
		said map[string]string
		want string
	}{
		{said("1", "ok", "ok"), ""},
		{said("1", "err", "ok"), "redis-write-failed"},
		{said("0", "err", "ok"), ""}, // of before it was turned off
		{said("1", "ok", "err"), "redis-write-failed"},
		{map[string]string{"redis_version": "7.0.15", "used_memory": "89", "maxmemory": "100"}, ""},
		{map[string]string{"redis_version": "7.0.15", "used_memory": "90", "maxmemory": "100"}, "redis-nearly-full"},
		{map[string]string{"redis_version": "7.0.15", "used_memory": "100", "maxmemory": "100"}, "redis-full"},
		{map[string]string{"redis_version": "7.0.15", "used_memory": "100", "maxmemory": "0"}, ""},
	} {
		if got := codes(doctor.JudgeRedis("Redis at one:6379", "redis-cli", test.said)); got != test.want {
			t.Errorf("%v: %q, want %q", test.said, got, test.want)
		}
	}
}

func TestNodesAreJudged(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		node doctor.Node
		want string
	}{
		{doctor.Node{Name: "rabbit@one", Running: true}, ""},
		{doctor.Node{Name: "rabbit@one", Memory: true}, "node-down"},
		{doctor.Node{Name: "rabbit@one", Running: true, Partitions: []string{"rabbit@two"}}, "partition"},
		{doctor.Node{Name: "rabbit@one", Running: true, Memory: true, Disk: true}, "broker-alarm,broker-alarm"},
		{doctor.Node{Name: "rabbit@two"}, ""}, // which the first one says
	} {
		findings := test.node.Judge(doctor.Node{Name: "rabbit@one", Running: true, Partitions: []string{"rabbit@two"}})
		if got := codes(findings); got != test.want {
			t.Errorf("%+v: %q, want %q", test.node, got, test.want)
		}
		for _, f := range findings {
			if f.Subject != "node rabbit@one" {
				t.Errorf("%s names %q", f.Code, f.Subject)
			}
		}
	}
}

// The releases whose quorum queues may lose messages when a cluster is parted are named, where there is one.
func TestClustersThatLoseAreNamed(t *testing.T) {
	t.Parallel()
	other := doctor.Node{Name: "rabbit@two", Running: true}
	for version, want := range map[string]string{"3.13.7": "", "4.0.0": "broker-version", "4.0.7": "broker-version", "4.0.8": "", "4.0.10": "", "4.3.6": ""} {
		node := doctor.Node{Name: "rabbit@one", Running: true, Applications: []doctor.Application{{Name: "mnesia", Version: "4.0.5"}, {Name: "rabbit", Version: version}}}
		if got := codes(node.Judge(node, other)); got != want {
			t.Errorf("RabbitMQ %s: %q, want %q", version, got, want)
		}
		if got := codes(node.Judge(node)); got != "" {
			t.Errorf("RabbitMQ %s alone: %q", version, got)
		}
	}
}

// A clock is wrong only where the bounds leave no doubt.
func TestClocksAreJudged(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		offset doctor.Offset
		want   string
	}{
		{doctor.NewOffset(-10, 10), ""},
		{doctor.NewOffset(900, 5000), ""},
		{doctor.NewOffset(-5000, -900), ""},
		{doctor.NewOffset(1010, 1030), "its clock is 1.02s ahead of (±11ms) that of Redis at one:6379"},
		{doctor.NewOffset(-90_040, -90_000), "its clock is 1m30.02s behind (±21ms) that of Redis at one:6379"},
	} {
		findings := doctor.JudgeBrokerClock("rabbit@one", "that of Redis at one:6379", test.offset)
		got := ""
		if len(findings) > 0 {
			got = findings[0].Found
		}
		if got != test.want {
			t.Errorf("%+v: %q, want %q", test.offset, got, test.want)
		}
	}
}

func TestTopicsMatch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern, key string
		want         bool
	}{
		{"order.*", "order.unpaid", true},
		{"order.*", "order", false},
		{"order.*", "order.unpaid.late", false},
		{"order.#", "order", true},
		{"#.late", "order.unpaid.late", true},
		{"#", "", true},
		{"*", "", false},
		{"order", "order.unpaid", false},
	} {
		if got := doctor.TopicMatches(test.pattern, test.key); got != test.want {
			t.Errorf("%s takes %q: %v", test.pattern, test.key, got)
		}
	}
}

// A suggested command is printable, whatever the key, and warns of one that is a pattern.
func TestBindingsAreSuggestedWithCare(t *testing.T) {
	t.Parallel()
	described, err := topology.New(topology.Config{Entries: []topology.Entry{{Name: "jobs", Kind: "direct"}}})
	if err != nil {
		t.Fatal(err)
	}
	management, err := topology.NewManagement("http://guest:guest@127.0.0.1:15672", "/")
	if err != nil {
		t.Fatal(err)
	}
	c := doctor.Config{Topology: described, Management: management}
	for _, test := range []struct {
		exchange, key string
		warns         bool
	}{
		{described.ReadyExchange(), "order.unpaid", false},
		{described.ReadyExchange(), "order.*", true},
		{described.ReadyExchange(), "#", true},
		{described.ReadyExchange(), "a#.*b", false},
		{described.ReadyExchangeOf("jobs"), "order.*", false},
		{described.RetryExchange(), "#", false},
		{described.ReadyExchange(), "'$(id)`\n\x1b[31m\u202e\u009b", false},
	} {
		command, warning := doctor.BindingOf(c, test.exchange, test.key)
		if (warning != "") != test.warns {
			t.Errorf("%s by %q: the warning is %q", test.exchange, test.key, warning)
		}
		if printable.Text(command) != command {
			t.Errorf("%q is not printable", command)
		}
		words := split(t, command)
		var body struct {
			Key string `json:"routing_key"`
		}
		if err := json.Unmarshal([]byte(words[len(words)-1]), &body); err != nil || body.Key != test.key {
			t.Errorf("%s binds by %q, not by %q (%v)", command, body.Key, test.key, err)
		}
	}
}

// What guest may do is no reason to act where a newcomer tries things out, and only there.
func TestWhoTriesOut(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"amqp://guest:guest@localhost:5672/": true, "amqp://localhost/": true, "amqps://guest:x@127.0.0.1/shop": true, "amqp://guest:guest@[::1]:5672/": true,
		"amqp://guest:guest@rabbitmq/": false, "amqp://guest:guest@localhost:5672,rabbitmq:5672/": false, "amqp://shop:guest@localhost/": false,
	} {
		if got := doctor.TriesOut(address); got != want {
			t.Errorf("%s: got %v", address, got)
		}
	}
}
