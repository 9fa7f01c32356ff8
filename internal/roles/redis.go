package roles

import (
	"slices"
	"strings"

	"github.com/delaybridge/delaybridge/topology"
)

// What scripts call counts, too: Redis has a script do what its caller may.
const (
	// always is what a client asks of any server, and of the nodes of a cluster.
	always = "ping select command cluster|slots asking"
	// ofLayout compares the layout, and notes it down where there is none.
	ofLayout = "hgetall hsetnx"
	ofPark   = "evalsha eval exists hget hset hincrby publish sadd time wait zadd zrem zscore"
	// ofChange is cancelling and rescheduling.
	ofChange = ofPark
	// ofArrival is asking about a message, parking it again, and noting down what came of it.
	ofArrival = ofPark + " hexists"
	ofReading = "evalsha_ro eval_ro get hget hgetall hmget hscan smembers time xrange " +
		"zcard zcount zrange zrangebyscore zrank zrevrangebyscore zscore"
	// ofDoctor tells how the server is set.
	ofDoctor = "info config|get client|info acl|whoami"
	ofBridge = ofChange + " " + ofReading + " hdel hexists hkeys hstrlen hvals set del pexpire sismember srem zmscore " +
		"zscan xadd subscribe unsubscribe config|get info"
	// ofAudit records an action, in the audit log alone.
	ofAudit = "xadd"
	// ofLedger is for keys of the ledger alone.
	ofLedger = "evalsha eval get set del pexpire pttl"
)

// redisRules are the rules of a role, without user and password.
func redisRules(role Role, t *topology.Topology) []string {
	access, channel := "~", []string{"&" + t.Prefix() + ":wake"}
	var commands string
	var more []string
	switch role {
	case Publisher:
		commands = ofLayout + " " + ofPark
	case Bridge:
		commands = ofLayout + " " + ofBridge
	case Consumer:
		commands = ofLayout + " " + ofArrival
		more = []string{"(" + strings.Join(append([]string{"~" + t.Prefix() + ":ledger:*"}, permitted(ofLedger)...), " ") + ")"}
	case Operator:
		access, channel = "%R~", nil
		commands = ofReading + " " + ofDoctor
		more = []string{"(" + strings.Join(append([]string{"~{" + t.Prefix() + "}:audit"}, permitted(ofAudit)...), " ") + ")"}
	case Relay:
		commands = ofLayout + " " + ofChange
	}
	rules := append([]string{access + "{" + t.Prefix() + ":*", access + "{" + t.Prefix() + "}:*"}, channel...)
	return slices.Concat(rules, permitted(always+" "+commands), more)
}

// permitted are the rules that allow commands.
func permitted(commands string) []string {
	names := slices.Compact(slices.Sorted(slices.Values(strings.Fields(commands))))
	for i, name := range names {
		names[i] = "+" + name
	}
	return names
}
