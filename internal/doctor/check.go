package doctor

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/topology"
)

const (
	// checkTimeout bounds a check, and patientTimeout one that looks again after a while at
	// what may pass by itself, or that starts rabbitmqctl, which takes seconds where the
	// machine is busy.
	checkTimeout   = 15 * time.Second
	patientTimeout = 30 * time.Second
	// leaveWithin bounds how long the connection is closed.
	leaveWithin = time.Second
)

// A check is made again where the management API has failed it.
const (
	tries      = 4
	retryAfter = time.Second
)

// check is one thing to look at. What run returns beside an error counts, too.
type check struct {
	name  string
	needs []server
	run   func(*examination, context.Context) ([]Finding, error)
	// patient ones look again.
	patient bool
}

// source names what the check asks.
func (c check) source() string {
	var names []string
	for _, s := range c.needs {
		if s != statistics {
			names = append(names, string(s))
		}
	}
	return cmp.Or(strings.Join(names, ", "), "a program")
}

// within is how long the check may take.
func (c check) within() time.Duration {
	if c.patient {
		return patientTimeout
	}
	return checkTimeout
}

// perform runs the check, again where the management API has failed it. What does not end with
// its context goes on alone, and counts as not made.
func (c check) perform(ctx context.Context, x *examination) ([]Finding, error) {
	limited, cancel := context.WithTimeout(ctx, c.within())
	defer cancel()
	type result struct {
		findings []Finding
		err      error
	}
	ended := make(chan result, 1)
	go func() {
		var r result
		for try := range tries {
			// RabbitMQ 3.10 answers 500 at times, where a queue is as new as the question.
			if try > 0 && (!errors.Is(r.err, topology.ErrUnreachable) || again(limited, retryAfter) != nil) {
				break
			}
			r.findings, r.err = c.run(x, limited)
		}
		ended <- r
	}()
	select {
	case r := <-ended:
		return r.findings, r.err
	case <-limited.Done():
	}
	select {
	case r := <-ended: // it knows better what it has waited for
		return r.findings, r.err
	case <-time.After(leaveWithin):
		return nil, limited.Err()
	}
}

// server is what a check asks.
type server string

const (
	overAMQP       server = "AMQP"
	overManagement server = "management API"
	redisServer    server = "Redis"
	// statistics are of the management plugin, which can be told to keep none.
	statistics server = "statistics"
)

// checks are in the order of the report's list.
func checks() []check {
	return []check{
		{"RabbitMQ's version", []server{overManagement}, (*examination).brokerVersion, false},
		{"feature flags", []server{overManagement}, (*examination).featureFlags, false},
		{"nodes and alarms", []server{overManagement}, (*examination).nodes, false},
		{"dead-letter settings", nil, (*examination).deadLetterSettings, true},
		{checkTopology, []server{overManagement}, (*examination).topology, true},
		{"permissions", []server{overManagement}, (*examination).permissions, false},
		{"inbox", []server{overManagement, statistics}, (*examination).inbox, false},
		{checkUnrouted, []server{overManagement, overAMQP}, (*examination).unrouted, false},
		{"queues of consumers", []server{overManagement, statistics}, (*examination).bound, false},
		{"tiers and lanes", []server{overManagement, statistics}, (*examination).waiting, true},
		{"Redis' version and state", []server{redisServer}, (*examination).redisState, false},
		{"Redis' settings", []server{redisServer}, (*examination).redisSettings, false},
		{"Redis' users", []server{redisServer}, (*examination).redisUsers, false},
		{checkConnections, []server{overManagement, overAMQP, redisServer}, (*examination).connections, false},
		{"bridges and leases", []server{redisServer}, (*examination).bridges, false},
		{"one deployment per prefix", []server{overManagement, statistics, redisServer}, (*examination).sharing, true},
		{"clock of Redis", []server{redisServer}, (*examination).redisClock, true},
		{"clock of RabbitMQ", []server{overManagement, statistics, overAMQP}, (*examination).brokerClock, true},
	}
}

// The checks that are others without the management API.
const (
	checkTopology    = "topology and policies"
	checkUnrouted    = "unbound routing keys"
	checkConnections = "connections"
)

// checks are those to make.
func (x *examination) checks() []check {
	all := checks()
	for i, c := range all {
		switch {
		case x.Management != nil:
		case c.name == checkTopology:
			all[i] = check{c.name, []server{overAMQP}, (*examination).missing, false}
		case c.name == checkUnrouted:
			all[i].needs = []server{overAMQP}
		case c.name == checkConnections:
			all[i].needs = []server{overAMQP, redisServer}
		}
	}
	return slices.DeleteFunc(all, func(c check) bool { return x.only != nil && !slices.Contains(x.only, c.name) })
}
