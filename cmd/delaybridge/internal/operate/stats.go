package operate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/connect"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// defaultStatsTimeout is enough to count ten million messages.
const defaultStatsTimeout = time.Minute

func newStatsCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Count the messages in Redis and in the queues, and say what is due next",
		Long: `Counts what is parked, being promoted and remembered in Redis, and what is in tiers,
lanes, inbox, unrouted and quarantine. Redis is asked in small steps. Messages of tiers
and lanes that are due, and not yet taken by the queue they lead to, are counted by the
management API alone, up to ten seconds late; with an empty management-url they are not.

Each source has as long as --timeout says; on a terminal, standard error shows which one
is asked. What cannot be had is left out and said on standard error; the exit code is 4 where Redis
or RabbitMQ is unreachable.`,
		Args: cli.UsageArgs(cobra.NoArgs),
	}
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	var timeout time.Duration
	cli.DurationFlag(cmd.Flags(), &timeout, "timeout", defaultStatsTimeout, "how long Redis, and then RabbitMQ, may take to answer")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if timeout <= 0 {
			return cli.Usage(fmt.Errorf("--timeout %v: it must be positive", timeout))
		}
		return connect.WithPark(a, func(park *redisbridge.Park, c cli.Config) error {
			return countMessages(cmd.Context(), a, timeout, *format, park, c)
		})
	}
	return cmd
}

// statistics are what `stats` prints.
type statistics struct {
	At       time.Time    `json:"at"`
	Redis    *redisStats  `json:"redis"`
	RabbitMQ *brokerStats `json:"rabbitmq"`
}

// redisStats are by Redis' clock.
type redisStats struct {
	NextDue    time.Time    `json:"next_due,omitzero"`
	OldestLate time.Time    `json:"oldest_late,omitzero"`
	Parked     int          `json:"parked"`
	ByLane     []queueStats `json:"parked_by_lane"`
	Promoting  int          `json:"promoting"`
	InLane     int          `json:"in_lane"`
	Due        int          `json:"due"`
	Cancelled  int          `json:"cancelled"`
	Delivered  int          `json:"delivered"`
	Moved      int          `json:"moved"`
	Entries    []entryStats `json:"entries"`
	Shards     []shardStats `json:"shards"`
	Bridges    []string     `json:"bridges"`
}

// entryStats are what Redis stores of an entry, by running counts, and its quota.
type entryStats struct {
	Entry         string `json:"entry,omitempty"` // empty: the default one
	Messages      int64  `json:"messages"`
	Bytes         int64  `json:"bytes"`
	QuotaMessages int64  `json:"quota_messages,omitempty"`
	QuotaBytes    int64  `json:"quota_bytes,omitempty"`
	Refused       int64  `json:"refused,omitempty"` // by the bridges alive, since their start
}

type shardStats struct {
	Shard  int    `json:"shard"`
	Owner  string `json:"owner,omitempty"`
	Parked int    `json:"parked"`
}

// brokerStats leave out queues that the broker does not know.
type brokerStats struct {
	Tiers      []queueStats `json:"tiers"`
	Lanes      []queueStats `json:"lanes"`
	NotTaken   *int         `json:"not_taken"` // null where the management API does not answer
	Inbox      *int         `json:"inbox"`
	Unrouted   *int         `json:"unrouted"`
	Quarantine *int         `json:"quarantine"`
	Silent     []string     `json:"silent,omitempty"` // queues that did not answer
}

type queueStats struct {
	TTL      string `json:"ttl"` // empty: straight to the ready exchange
	Messages int    `json:"messages"`
}

// errNoAnswer means that a source has not answered within --timeout.
var errNoAnswer = errors.New("no answer in time")

// inTime asks a source that may not end with its context, and stops waiting then.
func inTime[T any](ctx context.Context, within time.Duration, source string, ask func(context.Context) (T, error)) (T, error) {
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	type answer struct {
		value T
		err   error
	}
	heard := make(chan answer, 1)
	go func() {
		value, err := ask(limited)
		heard <- answer{value, err}
	}()
	select {
	case a := <-heard:
		return a.value, a.err
	case <-limited.Done():
	}
	select {
	case a := <-heard: // what it has until then
		return a.value, a.err
	case <-time.After(leaveWithin):
	}
	var none T
	return none, cli.WithCode(cli.ExitUnreachable, fmt.Errorf("%s: %w: waited %v", source, errNoAnswer, within))
}

func countMessages(ctx context.Context, a *cli.App, within time.Duration, format string, park *redisbridge.Park, c cli.Config) error {
	s := statistics{At: time.Now().UTC().Truncate(time.Millisecond)}
	shown := a.NewWorking("counting in Redis")
	defer shown.Clear()
	counts, redisErr := inTime(ctx, within, "Redis", func(ctx context.Context) (redisbridge.Stats, error) {
		return park.Stats(ctx, redisbridge.StatsOptions{Exact: true})
	})
	if redisErr == nil {
		s.Redis = newRedisStats(counts, c.Quotas)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	shown.Describe("counting in RabbitMQ")
	var brokerErr error
	s.RabbitMQ, brokerErr = inTime(ctx, within, "RabbitMQ", func(ctx context.Context) (*brokerStats, error) { return countInBroker(ctx, a, c) })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	shown.Clear()
	if err := errors.Join(redisErr, brokerErr); s.Redis == nil && s.RabbitMQ == nil {
		return err
	}
	return errors.Join(printStats(a, format, s), redisErr, brokerErr)
}

// countInBroker asks over AMQP, whose answers are not old, and the management API for what
// AMQP does not tell.
func countInBroker(ctx context.Context, a *cli.App, c cli.Config) (*brokerStats, error) {
	management, err := connect.ManagementIfAny(c)
	if err != nil {
		return nil, err
	}
	var counts topology.Counts
	err = connect.WithBroker(ctx, a, c, func(ctx context.Context, channels topology.Channels) (err error) {
		counts, err = c.Topology.Count(ctx, channels)
		return err
	})
	if err != nil {
		return nil, err
	}
	one := func(name string) *int {
		if n, there := counts.Queues[name]; there {
			return &n
		}
		return nil
	}
	t := c.Topology
	s := &brokerStats{
		Tiers: byTTL(counts.Tiers), Lanes: byTTL(counts.Lanes),
		Inbox: one(t.Inbox()), Unrouted: one(t.Unrouted()), Quarantine: one(t.Quarantine()),
	}
	if len(counts.Silent) > 0 {
		fmt.Fprintf(a.Err, "delaybridge: queues that do not answer, and are not counted: %s\n", printable.Text(strings.Join(counts.Silent, ", ")))
		s.Silent = counts.Silent
	}
	s.NotTaken, err = countNotTaken(ctx, t, management)
	if err != nil {
		fmt.Fprintf(a.Err, "delaybridge: what is due and not taken yet cannot be counted: %s\n", printable.Text(cli.OneLine(err)))
	}
	return s, nil
}

// errNoManagement says why what only the management API tells is not known.
var errNoManagement = errors.New("only the management API knows, and management-url is empty")

func countNotTaken(ctx context.Context, t *topology.Topology, management *topology.Management) (*int, error) {
	if management == nil {
		return nil, errNoManagement
	}
	n, err := t.CountNotTaken(ctx, management)
	if err != nil {
		return nil, err
	}
	return &n, nil
}

func byTTL(counts map[time.Duration]int) []queueStats {
	list := make([]queueStats, 0, len(counts))
	for _, ttl := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, queueStats{wire.TTLName(ttl), counts[ttl]})
	}
	return list
}

func newRedisStats(c redisbridge.Stats, quotas map[string]redisbridge.Quota) *redisStats {
	s := &redisStats{NextDue: c.NextDue.UTC(), OldestLate: c.OldestLate.UTC(), Bridges: []string{}, ByLane: []queueStats{}}
	lanes := map[time.Duration]int{}
	refused := map[string]int64{}
	for _, b := range c.Bridges {
		s.Bridges = append(s.Bridges, b.ID)
		for entry, n := range b.Refused {
			refused[entry] += n
		}
	}
	s.Entries = entriesOf(c.Entries, quotas, refused)
	for _, shard := range c.Shards {
		parked := shard.TotalParked()
		for lane, n := range shard.Parked {
			lanes[lane] += n
		}
		s.Parked += parked
		s.Promoting += shard.Promoting
		s.InLane += shard.InLane
		s.Due += shard.Due
		s.Cancelled += shard.Cancelled
		s.Delivered += shard.Delivered
		s.Moved += shard.Moved
		s.Shards = append(s.Shards, shardStats{shard.Shard, shard.Owner, parked})
	}
	for _, lane := range slices.Sorted(maps.Keys(lanes)) {
		s.ByLane = append(s.ByLane, queueStats{wire.TTLName(lane), lanes[lane]})
	}
	return s
}

// entriesOf lists the entries of which something is known.
func entriesOf(usage map[string]redisbridge.Usage, quotas map[string]redisbridge.Quota, refused map[string]int64) []entryStats {
	names := map[string]bool{}
	for name := range usage {
		names[name] = true
	}
	for name := range quotas {
		names[name] = true
	}
	for name := range refused {
		names[name] = true
	}
	list := []entryStats{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		u, q := usage[name], quotas[name]
		list = append(list, entryStats{name, u.Messages, u.Bytes, q.Messages, q.Bytes, refused[name]})
	}
	return list
}
