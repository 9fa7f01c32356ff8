// Package imports_test keeps the direction of imports.
package imports_test

import (
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/delaybridge/delaybridge/"

// rooms are those of the program: Go lets nobody else import them.
const rooms = "cmd/delaybridge/internal"

// rules are read top down; the first whose folder holds the importing package counts.
var rules = []struct { //nolint:gochecknoglobals // the table under test
	folder string
	may    []string // folders of ours it may import; its own are always allowed
	why    string
}{
	{"message", []string{"internal/wire"}, "all share the wire contract, so it stands alone"},
	{"topology/internal/rabbitmq", nil, "it knows RabbitMQ, and nothing of what is described"},
	{"topology/internal/removal", []string{"topology/internal/rabbitmq"}, "a room knows what it is given, and not who gives it"},
	{"topology", []string{"internal/secretfile", "internal/tlsurl", "internal/wire", "message"}, "the description is pure"},
	{"producer/outbox", []string{"producer", "redisbridge", "internal/wire", "message", "internal/meters", "internal/schema", "internal/sqltx"}, "a relay publishes, cancels and reschedules"},
	{"producer", []string{"internal/health", "internal/wire", "message", "topology", "internal/broker", "internal/meters", "internal/tracing"}, "it declares the Parker it needs; cmd joins it with redisbridge"},
	{"redisbridge/internal/store/format", []string{"internal/wire", "message", "topology"}, "it knows how messages are written, and asks no server"},
	{"redisbridge/internal/store/lua", nil, "it has the scripts, and runs none"},
	{"redisbridge/internal/store/server", []string{"internal/secretfile", "internal/tlsurl", "internal/broker"}, "it knows Redis servers, and nothing of what is kept there"},
	{"redisbridge/internal/store", []string{"internal/wire", "message", "topology"}, "it knows Redis, and none of those who use it"},
	{"redisbridge/internal/members", []string{"redisbridge/internal/store"}, "a room knows none of the others"},
	{"redisbridge/internal/installation", []string{"topology", "internal/broker", "internal/health", "redisbridge/internal/store", "internal/sleep"}, "a room knows none of the others"},
	{"redisbridge/internal/upkeep", []string{"internal/wire", "topology", "internal/broker", "internal/health", "redisbridge/internal/store", "internal/sleep"}, "a room knows none of the others"},
	{"redisbridge/internal/intake", []string{"internal/wire", "message", "topology", "internal/broker", "internal/health", "redisbridge/internal/store", "redisbridge/internal/upkeep", "internal/sleep"}, "a room knows what it is given, and not who gives it"},
	{"redisbridge/internal/commands", []string{"internal/wire", "message", "topology", "internal/broker", "redisbridge/internal/upkeep", "internal/sleep"}, "a room knows what it is given, and not who gives it"},
	{"redisbridge/internal/promote", []string{"internal/wire", "message", "topology", "internal/broker", "internal/health", "internal/tracing", "redisbridge/internal/store", "redisbridge/internal/upkeep", "internal/sleep"}, "a room knows what it is given, and not who gives it"},
	{"redisbridge", []string{"internal/wire", "message", "topology", "internal/broker", "internal/defaults", "internal/health", "internal/meters", "internal/printable", "internal/tracing", "internal/sleep"}, "a service that only publishes needs no promoter"},
	{"consumer/internal/once", []string{"consumer/ledger"}, "a room knows what it is given, and not who gives it"},
	{"consumer/internal/outage", []string{"consumer/ledger"}, "a room knows what it is given, and not who gives it"},
	{"consumer/internal/spans", []string{"internal/tracing", "internal/wire", "message"}, "a room knows what it is given, and not who gives it"},
	{"consumer/internal/unsettled", nil, "a room knows what it is given, and not who gives it"},
	{"consumer/internal/upkeep", []string{"internal/broker", "topology"}, "a room knows what it is given, and not who gives it"},
	{"consumer", []string{"internal/defaults", "internal/health", "internal/wire", "message", "topology", "internal/broker", "internal/meters", "internal/schema", "internal/sqltx", "internal/tracing", "internal/sleep"}, "a service that only consumes needs no Redis"},
	{"internal/tracing", []string{"internal/wire", "message"}, "it knows what is traced, and none of those who do it"},
	{"internal/wire", nil, "it knows how things are written, and not what they mean"},
	{"internal/broker", []string{"internal/secretfile", "internal/tlsurl"}, "it knows AMQP and none of our words"},
	{"internal/defaults", nil, "it has numbers, of which all may know"},
	{"internal/definitions", []string{"topology"}, "it writes a description down, and asks no server"},
	{"internal/capacity", nil, "it is arithmetic, and asks no server"},
	{"internal/health", nil, "it is a table, which all read"},
	{"internal/schema", []string{"internal/sqltx"}, "it brings tables up to date, whatever is in them"},
	{"internal/secretfile", nil, "it reads files, whatever they are for"},
	{"internal/tlsurl", nil, "it reads URLs, whatever server they are of"},
	{"internal/printable", nil, "it knows text, whatever that says"},
	{"internal/sleep", nil, "it knows time, and nothing of ours"},
	{"internal/sqltx", nil, "it knows databases and none of ours"},
	{"internal/meters", nil, "it knows Prometheus and none of what is counted"},
	{"internal/fault/history", nil, "it keeps what was seen, and knows none of those who saw it"},
	{"internal/fault/checker", []string{"internal/fault/history"}, "who judges must not share a mistake with those who are judged"},
	{"internal/fault/shop", []string{"internal/fault/history", "internal/wire", "message", "topology", "internal/sqltx", "consumer", "producer/outbox"}, "it is what all others know, and knows none of them"},
	{"internal/fault/roles", []string{"internal/fault/history", "internal/fault/shop", "internal/wire", "message", "topology", "internal/broker", "producer", "consumer", "redisbridge", "internal/sleep"}, "who plays a role does not know what is broken when"},
	{"internal/fault/world", []string{"internal/fault/checker", "internal/fault/history", "internal/fault/shop", "internal/fault/roles", "internal/fault/skew", "internal/wire", "topology", "internal/broker", "internal/quarantine", "internal/servers", "redisbridge", "internal/sleep"}, "it can be broken, and does not know how"},
	{"internal/fault/scenarios", []string{"internal/fault/checker", "internal/fault/history", "internal/fault/shop", "internal/fault/roles", "internal/fault/world", "topology", "internal/quarantine", "internal/servers", "redisbridge", "internal/sleep"}, "they break a world, and do not know which of them is used when"},
	{"bench/internal/figures", nil, "they are numbers, whatever was measured"},
	{"bench/internal/lab", []string{"bench/internal/figures", "internal/servers", "internal/wire", "message", "producer", "redisbridge", "topology"}, "it has what measurements share, and knows none of them"},
	{"internal/wiretest", []string{"internal/wire", "message"}, "it shows what clients send, whatever becomes of that"},
	{"internal/servers/config", nil, "it has settings, whoever reads them"},
	{"internal/servers/lifecycle", nil, "it has what all servers have in common, and knows none of them"},
	{"internal/servers/private", []string{"internal/servers/config", "internal/servers/lifecycle"}, "it runs programs, whatever they serve"},
	{"internal/servers/containers", []string{"internal/servers/config", "internal/servers/lifecycle"}, "it runs containers, whatever is in them"},
	{"internal/servers/databases", []string{"internal/servers/lifecycle", "internal/servers/private"}, "a server is started as it is told, whatever was chosen"},
	{"internal/servers/rabbitmq", []string{"internal/servers/containers", "internal/servers/lifecycle", "internal/servers/private"}, "a server is started as it is told, whatever was chosen"},
	{"internal/servers/redisserver", []string{"internal/servers/config", "internal/servers/containers", "internal/servers/lifecycle", "internal/servers/private"}, "a server is started as it is told, whatever was chosen"},
	{"internal/servers", nil, "servers start without anything of ours, or its tests would test themselves"},
	{rooms + "/cli", []string{"internal", "message", "producer", "redisbridge", "topology"}, "it has what all commands share, and knows none of them"},
	{rooms + "/telemetry", []string{rooms + "/cli", "internal", "message"}, "it tells what it is given, of whatever command"},
	{rooms + "/connect", []string{rooms + "/cli", rooms + "/telemetry", "internal", "redisbridge", "topology"}, "it opens what commands ask for, and knows none of them"},
	{rooms + "/audit", []string{rooms + "/cli", rooms + "/connect", "internal", "redisbridge"}, "it records what it is told, by whatever command"},
	{rooms + "/traffic", []string{rooms + "/cli", rooms + "/connect", rooms + "/telemetry", "consumer", "internal", "message", "producer", "redisbridge", "topology"}, "a room of commands knows none of the others"},
	{rooms + "/waiting", []string{rooms + "/audit", rooms + "/cli", rooms + "/connect", rooms + "/telemetry", "internal", "message", "redisbridge", "topology"}, "a room of commands knows none of the others"},
	{rooms + "/operate", []string{rooms + "/audit", rooms + "/cli", rooms + "/connect", "internal", "message", "redisbridge", "topology"}, "a room of commands knows none of the others"},
	{rooms + "/setup", []string{rooms + "/audit", rooms + "/cli", rooms + "/connect", "internal", "redisbridge", "topology"}, "a room of commands knows none of the others"},
}

// sealed are rooms that only those in one folder see.
var sealed = []struct{ room, by, why string }{ //nolint:gochecknoglobals // a part of the table
	{"redisbridge/internal/store/format", "redisbridge/internal/store", "nobody else sees a key or the bytes of a record"},
	{"redisbridge/internal/store/lua", "redisbridge/internal/store", "nobody else runs a script"},
}

func TestImportsKeepTheirDirection(t *testing.T) {
	t.Parallel()
	list, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(list)) {
		paths := strings.Fields(line)
		from, ours := strings.CutPrefix(paths[0], module)
		if !ours {
			continue
		}
		seen++
		for _, path := range paths[1:] {
			if path+"/" == module && !in(from, "examples") && !in(from, "cmd") && !in(from, "bench") {
				t.Errorf("%s imports the front door, which is for users", from)
			}
			to, ours := strings.CutPrefix(path, module)
			if !ours {
				continue
			}
			if (in(to, "cmd") || strings.Contains(to, "/cmd/")) && !in(to, rooms) {
				t.Errorf("%s imports %s: nobody imports a command", from, to)
			}
			for _, rule := range rules {
				if !in(from, rule.folder) {
					continue
				}
				if !in(to, rule.folder) && !slices.ContainsFunc(rule.may, func(folder string) bool { return in(to, folder) }) {
					t.Errorf("%s must not import %s: %s", from, to, rule.why)
				}
				break
			}
			for _, s := range sealed {
				if in(to, s.room) && !in(from, s.by) {
					t.Errorf("%s must not import %s: %s", from, to, s.why)
				}
			}
			if in(to, "internal/wiretest") || in(to, rooms+"/cli/clitest") {
				t.Errorf("%s imports %s: only tests do", from, to)
			}
			if in(to, "internal/servers") && !in(from, "internal/servers") && !in(from, "internal/fault") && !in(from, "examples") && !in(from, "bench") {
				t.Errorf("%s imports %s: only tests, the fault injector, the demo and the benchmark start servers", from, to)
			}
		}
	}
	if seen < len(rules) {
		t.Errorf("only %d packages found", seen)
	}
}

// A package that is a room can be taken in at a glance.
func TestPackagesAreSmall(t *testing.T) {
	t.Parallel()
	const most = 15
	list, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{len .GoFiles}}`, module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		from := strings.TrimPrefix(fields[0], module)
		if n, err := strconv.Atoi(fields[1]); err != nil || n > most {
			t.Errorf("%s has %s files (%v); want %d at most", from, fields[1], err, most)
		}
	}
}

func in(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }
