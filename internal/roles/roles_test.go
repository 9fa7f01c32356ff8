package roles_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/internal/roles"
	"github.com/delaybridge/delaybridge/topology"
)

func described(t *testing.T) *topology.Topology {
	t.Helper()
	described, err := topology.New(topology.Config{Prefix: "shop.eu", Entries: []topology.Entry{{Name: "audit", Kind: "fanout"}, {Name: "orders", Kind: "direct"}}})
	if err != nil {
		t.Fatal(err)
	}
	return described
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		role                   roles.Role
		scope                  roles.Scope
		configure, write, read string
	}{
		"publisher":                {roles.Publisher, roles.Scope{}, `^$`, `^shop\.eu\.entry$`, `^$`},
		"publisher of an entry":    {roles.Publisher, roles.Scope{Entries: []string{"orders"}}, `^$`, `^shop\.eu\.entry\.orders$`, `^$`},
		"publisher of two entries": {roles.Publisher, roles.Scope{Entries: []string{"", "orders"}}, `^$`, `^shop\.eu\.(entry|entry\.orders)$`, `^$`},
		"bridge":                   {roles.Bridge, roles.Scope{}, `^shop\.eu\.`, `^shop\.eu\.`, `^shop\.eu\.`},
		"consumer": {
			roles.Consumer, roles.Scope{Queues: []string{"a+b"}},
			`^a\+b$`, `^(a\+b|shop\.eu\.quarantine)$`, `^(a\+b|shop\.eu\.(ready|retry))$`,
		},
		"consumer of an entry": {
			roles.Consumer, roles.Scope{Queues: []string{"b", "a"}, Entries: []string{"audit"}},
			`^(a|b)$`, `^(a|b|shop\.eu\.quarantine)$`, `^(a|b|shop\.eu\.(ready\.audit|retry))$`,
		},
		"operator": {
			roles.Operator, roles.Scope{},
			`^$`, `^shop\.eu\.(entry|entry\.audit|entry\.orders|ready|ready\.audit|ready\.orders|retry)$`, `^shop\.eu\.(quarantine|retry|unrouted)$`,
		},
		"relay":             {roles.Relay, roles.Scope{}, `^$`, `^shop\.eu\.(ready|ready\.audit|ready\.orders)$`, `^$`},
		"relay of an entry": {roles.Relay, roles.Scope{Entries: []string{"audit"}}, `^$`, `^shop\.eu\.ready\.audit$`, `^$`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := roles.Of(tc.role, described(t), tc.scope)
			if err != nil || got.Configure != tc.configure || got.Write != tc.write || got.Read != tc.read {
				t.Errorf("%v: configure %s, write %s, read %s", err, got.Configure, got.Write, got.Read)
			}
		})
	}
}

// Redis has a script do what its caller may: so each role has what its scripts call, and
// little else.
func TestRolesMayWhatTheirScriptsCall(t *testing.T) {
	t.Parallel()
	for role, tc := range map[roles.Role]struct{ scripts, direct string }{
		roles.Publisher: {"park", "hgetall hsetnx wait"},
		roles.Consumer:  {"park arrive repark handled", "hgetall hsetnx wait"},
		roles.Relay:     {"park cancel reschedule", "hgetall hsetnx wait"},
		roles.Operator:  {"look list count tally glance bridges flow clock", "get hgetall hmget hscan xrange info config|get client|info acl|whoami"},
		roles.Bridge: {
			"park cancel reschedule arrive repark claim settle postpone yield attend clock handled look list count tally glance bridges flow sweep erase",
			"hscan zscan xadd xrange hgetall hsetnx hset set get hmget subscribe unsubscribe config|get info publish wait",
		},
	} {
		want := map[string]bool{}
		for script := range strings.FieldsSeq(tc.scripts) {
			for command := range called(t, script) {
				want[command] = true
			}
		}
		run := "evalsha eval"
		if role == roles.Operator {
			run = "evalsha_ro eval_ro"
		}
		if role == roles.Bridge {
			run += " evalsha_ro eval_ro"
		}
		for command := range strings.FieldsSeq(tc.direct + " " + run + " ping select command cluster|slots asking") {
			want[command] = true
		}
		rights, err := roles.Of(role, described(t), roles.Scope{Queues: map[roles.Role][]string{roles.Consumer: {"billing"}}[role]})
		if err != nil {
			t.Fatal(err)
		}
		may := map[string]bool{}
		for _, rule := range rights.Redis {
			if command, is := strings.CutPrefix(rule, "+"); is {
				may[command] = true
			}
		}
		for command := range want {
			if !may[command] {
				t.Errorf("a %s may not %s", role, command)
			}
		}
		for command := range may {
			if !want[command] {
				t.Errorf("a %s may %s, and need not", role, command)
			}
		}
	}
}

const lua = "../../redisbridge/internal/store/lua/"

var (
	function = regexp.MustCompile(`(?ms)^local function (\w+)\(.*?^end$`)
	calls    = regexp.MustCompile(`redis\.p?call\((?:\w+\[\d\] and )?'([A-Z]+)'(?: or '([A-Z]+)')?`)
)

// called returns the commands that a script calls, by itself and by functions of what is
// prepended to it.
func called(t *testing.T, script string) map[string]bool {
	t.Helper()
	shared := map[string]string{}
	for _, name := range []string{"lib", "pages"} {
		for _, found := range function.FindAllStringSubmatch(read(t, name), -1) {
			shared[found[1]] = found[0]
		}
	}
	commands, text := map[string]bool{}, read(t, script)
	for reached := (map[string]bool{}); ; {
		for _, found := range calls.FindAllStringSubmatch(text, -1) {
			for _, command := range found[1:] {
				if command != "" {
					commands[strings.ToLower(command)] = true
				}
			}
		}
		var more []string
		for _, name := range slices.Sorted(maps.Keys(shared)) {
			if !reached[name] && regexp.MustCompile(`\b`+name+`\b`).MatchString(text) {
				reached[name] = true
				more = append(more, shared[name])
			}
		}
		if len(more) == 0 {
			return commands
		}
		text = strings.Join(more, "\n")
	}
}

func read(t *testing.T, script string) string {
	t.Helper()
	text, err := os.ReadFile(lua + script + ".lua")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
