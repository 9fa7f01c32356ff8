// Package doctor examines an installation, that is RabbitMQ, Redis and the bridges of
// one prefix, and says of each finding what it means and which command mends it.
//
// It only looks. Each check stands alone and has a time limit; one that cannot be made,
// for lack of a right, or since a server does not answer, is itself a finding, and
// the others are made all the same.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// Config says what to examine.
type Config struct {
	// Topology is the bridges' own. Required.
	Topology *topology.Topology
	// Shards is the number that is configured, where Topology has that which Redis has. Defaults to
	// that of Topology.
	Shards int
	// AMQPURL is the one that the bridges have: its user is examined. Required.
	AMQPURL string
	// Management asks about the virtual host of AMQPURL. Defaults to none: then what AMQP and
	// Redis tell is examined.
	Management *topology.Management
	// Redis is of redisbridge.NewClient. The doctor does not close it. Required.
	Redis redis.UniversalClient
	// ManagementURL and RedisURL are those of Management and Redis: how they connect is
	// examined. Defaults to none, which is not.
	ManagementURL, RedisURL string
	// RabbitMQCtl is how to run rabbitmqctl on a node, such as
	// docker exec rabbitmq rabbitmqctl. Without it no check runs a program.
	RabbitMQCtl []string
	// Patience is how long to try to reach RabbitMQ over AMQP. Required.
	Patience time.Duration
	// Progress is told, one call at a time, which checks are still to be made: all at first.
	// Defaults to nothing.
	Progress func(left []string)
	// Now is this machine's clock. Defaults to time.Now.
	Now func() time.Time

	only []string // names of the checks to make; all without
}

// examination is under way.
type examination struct {
	Config
	conn *broker.Conn
	tags []string // of the user who asks the management API
	// blind says that the management plugin keeps no statistics.
	blind bool

	listing sync.Mutex

	progress sync.Mutex
	left     []string // checks
}

// made notes down that a check was made, or none yet.
func (x *examination) made(name string) {
	x.progress.Lock()
	defer x.progress.Unlock()
	x.left = slices.DeleteFunc(x.left, func(n string) bool { return n == name })
	if x.Progress != nil {
		x.Progress(slices.Clone(x.left))
	}
}

// Examine makes all checks. It fails only where ctx ends or the configuration is wrong.
func Examine(ctx context.Context, c Config) (Report, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	conn, err := broker.New(broker.Config{URL: c.AMQPURL, Name: connectionName, GiveUpAfter: c.Patience})
	if err != nil {
		return Report{}, err
	}
	x := &examination{Config: c, conn: conn}
	defer conn.Start(ctx, leaveWithin)()
	r := x.examine(ctx)
	return r, ctx.Err()
}

const connectionName = "delaybridge doctor"

func (x *examination) examine(ctx context.Context) Report {
	var r Report
	all := x.checks()
	for _, c := range all {
		x.left = append(x.left, c.name)
	}
	x.made("")
	absent, findings := x.reach(ctx, all)
	results := make([]struct {
		findings []Finding
		err      error
	}, len(all))
	var work sync.WaitGroup
	for i, check := range all {
		r.Checks = append(r.Checks, Check{check.name, OutcomeFine, []string{}})
		if slices.ContainsFunc(check.needs, func(s server) bool { return absent[s] }) {
			r.Checks[i].Outcome = OutcomeNotMade
			x.made(check.name)
			continue
		}
		work.Go(func() {
			results[i].findings, results[i].err = check.perform(ctx, x)
			x.made(check.name)
		})
	}
	work.Wait()
	for i, result := range results {
		if len(result.findings) > 0 {
			r.Checks[i].Outcome = OutcomeFindings
		}
		if result.err != nil {
			r.Checks[i].Outcome = OutcomeNotMade
			result.findings = append(result.findings, x.notMade(all[i], result.err))
		}
		for _, f := range result.findings {
			if !slices.Contains(r.Checks[i].Codes, f.Code) {
				r.Checks[i].Codes = append(r.Checks[i].Codes, f.Code)
			}
		}
		findings = append(findings, result.findings...)
	}
	slices.SortStableFunc(findings, func(a, b Finding) int { return a.Severity.rank() - b.Severity.rank() })
	r.Findings = append([]Finding{}, findings...)
	return r
}

// reach finds out which servers answer, of those that checks need.
func (x *examination) reach(ctx context.Context, checks []check) (absent map[server]bool, findings []Finding) {
	needed := map[server]bool{}
	for _, c := range checks {
		for _, s := range c.needs {
			needed[s] = true
		}
	}
	var work sync.WaitGroup
	try := func(s server, reach func()) {
		if needed[s] && (s != overManagement || x.Management != nil) {
			work.Go(reach)
		}
	}
	var overAMQPErr, managementErr, redisErr error
	try(overAMQP, func() {
		var ch *amqp.Channel
		if ch, overAMQPErr = x.conn.Channel(ctx); overAMQPErr == nil {
			_ = ch.Close()
		}
	})
	try(overManagement, func() {
		limited, cancel := context.WithTimeout(ctx, checkTimeout)
		defer cancel()
		if x.tags, managementErr = x.whoAmI(limited); managementErr == nil {
			x.blind, managementErr = x.statisticsOff(limited)
		}
	})
	try(redisServer, func() {
		limited, cancel := context.WithTimeout(ctx, x.Patience)
		defer cancel()
		_, redisErr = redisbridge.Inspect(limited, x.Redis, x.Topology)
	})
	work.Wait()
	absent = map[server]bool{}
	if x.Management == nil && needed[overManagement] {
		absent[overManagement] = true
		findings = append(findings, find(managementUnset, "setting management-url", "it is empty; "+without(checks, overManagement)))
	}
	for _, one := range []struct {
		server                 server
		subject                string
		err                    error
		unreachable, refused   string
		unreachableDo, refusal []string
	}{
		{
			overAMQP, broker.Redact(x.AMQPURL), overAMQPErr, brokerUnreachable, brokerRefused,
			[]string{"rabbitmqctl await_startup", "rabbitmq-diagnostics listeners"},
			[]string{
				"rabbitmqctl list_vhosts", "rabbitmqctl authenticate_user " + printable.Shell(x.amqpUser()),
				x.setPermissions(),
			},
		},
		{
			overManagement, x.managementName(), managementErr, managementUnreachable, managementRefused,
			[]string{"rabbitmq-plugins enable rabbitmq_management", "rabbitmq-diagnostics listeners"},
			[]string{
				"rabbitmqctl authenticate_user " + printable.Shell(x.managementUser()),
				"rabbitmqctl set_user_tags " + printable.Shell(x.managementUser()) + " monitoring",
				"rabbitmqctl set_permissions " + x.on() + " " + printable.Shell(x.managementUser()) + " '^$' '^$' '^$'",
			},
		},
		{
			redisServer, redisName(x.Redis), redisErr, redisUnreachable, redisRefused,
			[]string{redisCLI(x.Redis) + " PING"}, []string{redisCLI(x.Redis) + " ACL LIST"},
		},
	} {
		if one.err == nil {
			continue
		}
		absent[one.server] = true
		code, commands := one.unreachable, one.unreachableDo
		if isRefusal(one.err) {
			code, commands = one.refused, one.refusal
		}
		findings = append(findings, find(code, one.subject, plain(one.err)+"; "+without(checks, one.server), commands...))
	}
	if x.blind {
		absent[statistics] = true
		findings = append(findings, find(statisticsOff, "management API at "+x.managementName(),
			"the management plugin keeps no statistics; "+without(checks, statistics), switchStatisticsOn))
	}
	return absent, findings
}

// without says which checks are not made for lack of a server.
func without(checks []check, lacking server) string {
	var names []string
	for _, c := range checks {
		if slices.Contains(c.needs, lacking) {
			names = append(names, c.name)
		}
	}
	return "so these checks are not made: " + strings.Join(names, ", ")
}

// isRefusal tells a server that says no from one that says nothing.
func isRefusal(err error) bool {
	return errors.Is(err, broker.ErrConfiguration) || errors.Is(err, topology.ErrConfiguration) || errors.Is(err, redisbridge.ErrConfiguration)
}

// notMade is the finding for a check that could not be made.
func (x *examination) notMade(c check, err error) Finding {
	name := c.name
	var commands []string
	var lacking lackingTag
	switch {
	case errors.As(err, &lacking):
		commands = []string{"rabbitmqctl set_user_tags " + printable.Shell(x.Management.User()) + " " + lacking.tag}
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("no answer within %v from %s", c.within(), c.source())
	}
	return find(checkNotMade, name, plain(err), commands...)
}

// plain writes an error on one line.
func plain(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
