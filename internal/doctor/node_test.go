package doctor_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/doctor"
	"github.com/delaybridge/delaybridge/internal/roles"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/topology"
)

// TestDoctorOfANode breaks what all installations on a node share, so on one of its own
// and one after the other.
func TestDoctorOfANode(t *testing.T) {
	t.Parallel()
	i := newSite(t).install(t, "shared")
	for _, test := range []struct {
		name string
		run  func(*testing.T, *installation)
	}{{"alarm", alarm}, {"statistics", statisticsOff}, {"dead-letters", deadLetters}, {"feature-flag", featureFlag}} {
		t.Run(test.name, func(t *testing.T) {
			mine := *i // a test may change the configuration
			test.run(t, &mine)
		})
	}
}

func (i *installation) control(t *testing.T, args ...string) string {
	t.Helper()
	output, err := i.broker.Control(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

func alarm(t *testing.T, i *installation) {
	t.Helper()
	i.control(t, "set_vm_memory_high_watermark", "0.0000001")
	f := i.has(t, "nodes and alarms", "broker-alarm", "node "+i.broker.NodeName())
	if !strings.HasPrefix(f.Found, "memory alarm: ") {
		t.Errorf("found: %s", f.Found)
	}
	i.mend(t, f)
	i.hasNot(t, "nodes and alarms", f.Code)
}

// A management plugin without statistics shows a queue as if it were empty, and no
// consumer: no check may take that for true. Started anew it has them.
func statisticsOff(t *testing.T, i *installation) {
	t.Helper()
	const ofSharing, ofClock = "one deployment per prefix", "clock of RabbitMQ"
	i.bridge(t, i.Env, i.client(t, i.RedisURL))
	needing := []string{"inbox", "tiers and lanes", ofSharing, ofClock}
	i.control(t, "eval", "application:set_env(rabbitmq_management_agent, disable_metrics_collector, true).")
	report := i.examine(t, i.config, append(needing, "nodes and alarms")...)
	for _, c := range report.Checks {
		if c.Outcome != doctor.OutcomeNotMade {
			t.Errorf("the check %q is %s", c.Name, c.Outcome)
		}
	}
	if found := report.Findings[0].Found; !strings.HasSuffix(found, "so these checks are not made: "+strings.Join(needing, ", ")) {
		t.Errorf("found: %s", found)
	}
	i.mend(t, i.has(t, ofClock, "statistics-off", "management API at "))
	i.hasNot(t, ofSharing, "statistics-off")
	i.hasNot(t, ofClock, "check-not-made")
}

func deadLetters(t *testing.T, i *installation) {
	t.Helper()
	const check = "dead-letter settings"
	i.control(t, "eval", "application:set_env(rabbit, dead_letter_worker_consumer_prefetch, 32), application:set_env(rabbit, dead_letter_worker_publisher_confirm_timeout, 60000).")
	few := i.has(t, check, "dead-letter-prefetch", i.broker.NodeName())
	slow := i.has(t, check, "dead-letter-retry", i.broker.NodeName())
	i.mend(t, few)
	i.mend(t, slow)
	i.hasNot(t, check, few.Code)
	i.hasNot(t, check, slow.Code)

	// Without rabbitmqctl there is a note, with a command that answers.
	with := i.config.RabbitMQCtl
	i.config.RabbitMQCtl = nil
	unseen := i.has(t, check, "dead-letter-settings-unseen", "RabbitMQ")
	if unseen.Severity != doctor.Note {
		t.Errorf("severity %s", unseen.Severity)
	}
	if said := i.control(t, split(t, unseen.Commands[0])[1:]...); !strings.Contains(said, "1000") || !strings.Contains(said, "10000") {
		t.Errorf("%s says %s", unseen.Commands[0], said)
	}
	i.config.RabbitMQCtl = []string{"/nonexistent/rabbitmqctl"}
	i.has(t, check, "check-not-made", check)
	i.config.RabbitMQCtl = with
}

// A node that has forgotten a flag is like one that was upgraded from before it.
func featureFlag(t *testing.T, i *installation) {
	t.Helper()
	var flags []struct{ Name, State, Stability string }
	if err := json.Unmarshal(i.Manage(t, http.MethodGet, "/api/feature-flags", ""), &flags); err != nil {
		t.Fatal(err)
	}
	var enabled []string
	forgotten := ""
	for _, f := range flags {
		// One of a version's name depends on that version's others.
		if f.Stability == "stable" && forgotten == "" && !strings.HasPrefix(f.Name, "rabbitmq_") {
			forgotten = f.Name
		}
	}
	for _, f := range flags {
		if f.State == "enabled" && f.Name != forgotten {
			enabled = append(enabled, "'"+f.Name+"'")
		}
	}
	if forgotten == "" {
		t.Fatalf("no flag can be off: %+v", flags)
	}
	i.control(t, "eval", `ok = file:write_file(rabbit_feature_flags:enabled_feature_flags_list_file(), "[`+strings.Join(enabled, ",")+`].\n").`)
	if err := i.broker.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	f := i.has(t, "feature flags", "feature-flag-off", "feature flag "+forgotten)
	i.mend(t, f)
	i.hasNot(t, "feature flags", f.Code)
}

// TestRedisSettings changes a server of its own.
func TestRedisSettings(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	top, err := topology.New(topology.Config{})
	if err != nil {
		t.Fatal(err)
	}
	i := &installation{Env: servertest.Env{RedisURL: store.URL()}}
	i.config = doctor.Config{
		Topology: top, AMQPURL: "amqp://127.0.0.1:1/", Redis: i.client(t, store.URL()), Patience: 5 * time.Second,
		Management: i.management(t, "http://127.0.0.1:1"), // neither is asked
	}
	admin := redis.NewClient(&redis.Options{Addr: strings.TrimSuffix(strings.TrimPrefix(i.RedisURL, "redis://"), "/0"), MaxRetries: -1})
	defer func() { _ = admin.Close() }()
	set := func(name, value string) {
		t.Helper()
		if err := admin.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	const ofSettings, ofState = "Redis' settings", "Redis' version and state"
	i.hasNot(t, ofSettings, "redis-listpack")
	for _, test := range []struct{ check, code, name, value string }{
		{ofSettings, "redis-evicts", "maxmemory-policy", "allkeys-lru"},
		{ofSettings, "redis-appendfsync", "appendfsync", "everysec"},
		{ofSettings, "redis-fsync-on-rewrite", "no-appendfsync-on-rewrite", "yes"},
		{ofSettings, "redis-appendonly", "appendonly", "no"},
		{ofSettings, "redis-listpack", "hash-max-listpack-value", "64"},
		{ofState, "redis-full", "maxmemory", "500000"}, // less than any server uses
	} {
		i.hasNot(t, test.check, test.code)
		set(test.name, test.value)
		f := i.has(t, test.check, test.code, "Redis at "+admin.Options().Addr, test.name)
		i.mend(t, f)
		i.hasNot(t, test.check, test.code)
	}

	if err := admin.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	f := i.has(t, ofState, "redis-replica", "Redis at ")
	i.mend(t, f)
	i.hasNot(t, ofState, f.Code)

	// As managed Redis does, and as a user of ours may be kept from it.
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "narrow", "on", ">secret", "~*", "&*", "+@all", "-config").Err(); err != nil {
		t.Fatal(err)
	}
	i.config.Redis = i.client(t, servertest.AsRedisUser(t, i.RedisURL, "narrow", "secret"))
	f = i.has(t, ofSettings, "redis-settings-unseen", "Redis at ")
	if f.Severity != doctor.Warning || !strings.HasSuffix(f.Commands[0], "ACL SETUSER narrow '+config|get' +info") {
		t.Errorf("got %+v", f)
	}
	i.mend(t, f)
	i.hasNot(t, ofSettings, f.Code)
}

// TestRedisUsers names users who may write every key, on a server of its own.
func TestRedisUsers(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	top, err := topology.New(topology.Config{})
	if err != nil {
		t.Fatal(err)
	}
	i := &installation{Env: servertest.Env{RedisURL: store.URL()}}
	i.config = doctor.Config{
		Topology: top, AMQPURL: "amqp://127.0.0.1:1/", Redis: i.client(t, store.URL()), Patience: 5 * time.Second,
		Management: i.management(t, "http://127.0.0.1:1"), // neither is asked
	}
	admin := i.client(t, i.RedisURL)
	user := func(name string, rules ...string) {
		t.Helper()
		command := []any{"ACL", "SETUSER", name, "reset", "on", ">secret"}
		for _, rule := range rules {
			command = append(command, rule)
		}
		if err := admin.Do(t.Context(), command...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	const check, code = "Redis' users", "redis-user-too-wide"
	for _, role := range roles.All() {
		user(string(role), rightsOf(t, top, role).Redis...)
	}
	user("reader", "~*", "&*", "+@read")
	user("elsewhere", "~shop:*", "+@all")
	user("parker", append(rightsOf(t, top, roles.Publisher).Redis, "(~shop:* +@all)")...)
	user("former", "~*", "+@all", "off")
	i.hasNot(t, check, code) // nor is default, which needs no password, on this machine

	for name, rules := range map[string]string{"app": "allkeys allcommands", "cache": "%RW~* +get +set", "shop": "~shop:* (~* +@write)"} {
		user(name, strings.Fields(rules)...)
		f := i.has(t, check, code, "user "+name+" of Redis at 127.0.0.1:", "it may write every key")
		if left := i.examine(t, i.config, check).Without(code); len(left.Findings) > 0 {
			t.Errorf("not ignored: %+v", left.Findings)
		}
		if name == "app" { // of doctor's own user it says nothing
			own := *i
			own.config.Redis = i.client(t, servertest.AsRedisUser(t, i.RedisURL, name, "secret"))
			own.hasNot(t, check, code)
		}
		i.mend(t, f)
		i.hasNot(t, check, code)
	}

	// Without permission to list users, doctor reports none.
	user("app", "~*", "&*", "+@all")
	user("narrow", "~*", "&*", "+@all", "-acl|list")
	narrow := *i
	narrow.config.Redis = i.client(t, servertest.AsRedisUser(t, i.RedisURL, "narrow", "secret"))
	narrow.hasNot(t, check, code)
	if err := admin.Do(t.Context(), "ACL", "DELUSER", "app", "narrow").Err(); err != nil {
		t.Fatal(err)
	}

	// By an address that is not known to be this machine's, default is open to others.
	outside := strings.Replace(i.RedisURL, "127.0.0.1", "0.0.0.0", 1)
	i.config.Redis = i.client(t, outside)
	f := i.has(t, check, code, "user default of Redis at 0.0.0.0:", "needs no password")
	i.mend(t, f)
	i.config.Redis = i.client(t, servertest.AsRedisUser(t, outside, "default", "PASSWORD"))
	i.hasNot(t, check, code)
}

func TestCodesAreKebabCase(t *testing.T) {
	t.Parallel()
	codes := doctor.Codes()
	if !slices.IsSorted(codes) {
		t.Error("not sorted")
	}
	for _, code := range codes {
		if strings.Trim(code, "abcdefghijklmnopqrstuvwxyz-") != "" {
			t.Errorf("%q is not kebab-case", code)
		}
	}
}
