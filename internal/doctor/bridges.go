package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/delaybridge/delaybridge/internal/health"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// overdueFor is for how long a lease may be over, with something to promote, before
// that is a finding. Another bridge takes it over within about two leases.
const overdueFor = 10 * time.Second

// bridges judges the layout, who is alive, and what no bridge promotes.
func (x *examination) bridges(ctx context.Context) (findings []Finding, err error) {
	i, err := x.inspection(ctx)
	if err != nil {
		return nil, err
	}
	findings = append(findings, x.judgeLayout(i)...)
	switch len(i.Bridges) {
	case 0:
		findings = append(findings, find(noBridge, "prefix "+x.Topology.Prefix(), "no bridge is in the register of this Redis", "delaybridge bridge"))
	case 1:
		findings = append(findings, find(oneBridge, "bridge "+i.Bridges[0].ID, "it is the only one", "delaybridge bridge"))
	}
	var versions []string
	for _, b := range i.Bridges {
		versions = append(versions, b.Version)
	}
	if releases := health.Releases(versions); releases != "" {
		findings = append(findings, find(bridgeReleases, "prefix "+x.Topology.Prefix(), "its bridges are of "+releases, "delaybridge top"))
	}
	if i.WithoutID > 0 {
		findings = append(findings, find(withoutID, "exchange "+x.Topology.EntryExchange(),
			fmt.Sprintf("messages without a message-id that the bridges have taken in since they were started: %d", i.WithoutID)))
	}
	if i.Loss != (redisbridge.Loss{}) {
		findings = append(findings, find(redisLost, "prefix "+x.Topology.Prefix(), i.Loss.String()))
	}
	if i.Refused != "" {
		findings = append(findings, find(redisForeign, "prefix "+x.Topology.Prefix(), i.Refused, "delaybridge adopt"))
	}
	findings = append(findings, x.reported(i)...)
	for _, l := range i.Leases {
		if found := judgeLease(l, i.Now); found != "" {
			findings = append(findings, find(leaseExpired, "shard "+l.Name, found, "delaybridge bridge"))
		}
	}
	return findings, nil
}

// judgeLayout compares what is noted down in Redis with this release and its configuration.
func (x *examination) judgeLayout(i redisbridge.Inspection) (findings []Finding) {
	prefix, shards := "prefix "+x.Topology.Prefix(), strconv.Itoa(cmp.Or(x.Shards, x.Topology.Shards()))
	switch {
	case i.Version == "":
	case i.Version != i.WantVersion:
		found := fmt.Sprintf("it holds what another release of delaybridge has parked (layout %s, not %s)", i.Version, i.WantVersion)
		findings = append(findings, find(redisLayout, prefix, found, "delaybridge config show"))
	case i.NextShards > 0:
		found := fmt.Sprintf("its number of shards is being changed from %s to %d", i.Shards, i.NextShards)
		findings = append(findings, find(shardsChanged, prefix, found, fmt.Sprintf("delaybridge reshard %d", i.NextShards)))
	case i.Shards != shards && i.Generation > 0:
		findings = append(findings, find(shardsChanged, prefix, fmt.Sprintf("it has %s shards, and %s are configured", i.Shards, shards), "delaybridge config show"))
	case i.Shards != shards:
		findings = append(findings, find(redisLayout, prefix, fmt.Sprintf("in use with shards %s, not %s", i.Shards, shards), "delaybridge config show"))
	}
	return findings
}

// reported finds what only a bridge can see, once, as the first one says that does.
func (x *examination) reported(i redisbridge.Inspection) (findings []Finding) {
	for _, one := range []struct {
		condition health.Condition
		code      string
		command   string
	}{
		{health.Unconfirmed, confirmsMissing, "rabbitmq-diagnostics cluster_status"},
		{health.IntakeStuck, intakeStuck, ""},
		{health.Unfit, messageUnfit, ""},
		{health.Newer, messageNewer, "delaybridge top"},
	} {
		for _, b := range i.Bridges {
			at := slices.IndexFunc(b.Conditions, func(c redisbridge.ConditionState) bool { return c.Condition == string(one.condition) })
			if at < 0 {
				continue
			}
			var commands []string
			if one.command != "" {
				commands = append(commands, one.command)
			}
			lasts := time.Duration(b.Conditions[at].LastsMS) * time.Millisecond
			findings = append(findings, find(one.code, "bridge "+b.ID,
				fmt.Sprintf("%s; for %v, as of %v ago", b.Conditions[at].Detail, lasts.Round(time.Second), i.Now.Sub(b.At).Round(time.Second)), commands...))
			break
		}
	}
	return findings
}

// judgeLease says what waits though no bridge owns it, if something does.
func judgeLease(l redisbridge.Lease, now time.Time) string {
	over := now.Sub(l.Ends)
	if l.Owner != "" && over < overdueFor {
		return ""
	}
	late := time.Duration(0)
	if !l.Next.IsZero() {
		late = now.Sub(l.Next)
	}
	if late < overdueFor && l.Claimed == 0 {
		return ""
	}
	text := "nobody owns it"
	if l.Owner != "" {
		text = fmt.Sprintf("the lease of its owner %s ended %v ago", l.Owner, over.Round(time.Second))
	}
	if late > 0 {
		text += fmt.Sprintf("; its next message should have been promoted %v ago", late.Round(time.Second))
	}
	if l.Claimed > 0 {
		text += fmt.Sprintf("; claimed and not settled: %d", l.Claimed)
	}
	return text
}

const (
	// sharingLooks and sharingPause: a bridge that starts or stops is here before it is
	// there, for a moment. One that was killed stays in the register for 40 seconds, but
	// does not renew its entry, as others do every 15.
	sharingPause = 3 * time.Second
	sharingLooks = 7
)

// sharing compares the bridges that Redis knows with those that consume the inbox.
func (x *examination) sharing(ctx context.Context) (findings []Finding, err error) {
	first, there, here, err := x.sides(ctx)
	if err != nil {
		return nil, err
	}
	for look := 1; look < sharingLooks && len(there)+len(here) > 0; look++ {
		if err := again(ctx, sharingPause); err != nil {
			return nil, err
		}
		_, there2, here2, err := x.sides(ctx)
		if err != nil {
			return nil, err
		}
		there = slices.DeleteFunc(there, func(a redisbridge.BridgeStats) bool {
			return !slices.ContainsFunc(there2, func(b redisbridge.BridgeStats) bool { return a.ID == b.ID })
		})
		here = slices.DeleteFunc(here, func(c consumer) bool {
			return !slices.ContainsFunc(here2, func(d consumer) bool { return c.Tag == d.Tag })
		})
		first = slices.DeleteFunc(first, func(a redisbridge.BridgeStats) bool { // those that have renewed go
			return slices.ContainsFunc(there2, func(b redisbridge.BridgeStats) bool { return a.ID == b.ID && b.Until.After(a.Until) })
		})
	}
	there = slices.DeleteFunc(there, func(b redisbridge.BridgeStats) bool {
		return slices.ContainsFunc(first, func(a redisbridge.BridgeStats) bool { return a.ID == b.ID })
	}) // not heard of since: dead
	if len(there) > 0 {
		if err = x.allSeen(ctx); err != nil {
			there, err = nil, fmt.Errorf("bridge %s does not show as a consumer of %s: %w", there[0].ID, x.Topology.Inbox(), err)
		}
	}
	for _, b := range there {
		findings = append(findings, find(bridgeElsewhere, "bridge "+b.ID,
			fmt.Sprintf("in the register of %s, and it does not consume %s of virtual host %s at %s", redisName(x.Redis), x.Topology.Inbox(), x.Management.VHost(), x.Management),
			"rabbitmqctl list_consumers "+x.on(), "redis-cli CLIENT LIST"))
	}
	for _, c := range here {
		findings = append(findings, find(otherRedis, "bridge "+bridgeOf(c),
			fmt.Sprintf("it consumes %s over connection %s, and is not in the register of %s", x.Topology.Inbox(), c.Channel.Connection, redisName(x.Redis)), x.closing(c)))
	}
	return findings, err
}

// bridgeOf returns the ID of the bridge that consumes, or nothing.
func bridgeOf(c consumer) string {
	id, ours := wire.BridgeOf(c.Tag)
	if !ours {
		return ""
	}
	return id
}

// sides returns who is in the register, those of them who do not consume the inbox, and
// who does so and is not in the register.
func (x *examination) sides(ctx context.Context) (all, there []redisbridge.BridgeStats, here []consumer, err error) {
	consumers, err := x.consumers(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	i, err := x.inspection(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, b := range i.Bridges {
		if !slices.ContainsFunc(consumers, func(c consumer) bool { return bridgeOf(c) == b.ID }) {
			there = append(there, b)
		}
	}
	for _, c := range consumers {
		known := slices.ContainsFunc(i.Bridges, func(b redisbridge.BridgeStats) bool { return b.ID == bridgeOf(c) })
		if c.Queue.Name == x.Topology.Inbox() && bridgeOf(c) != "" && !known {
			here = append(here, c)
		}
	}
	return i.Bridges, there, here, nil
}
