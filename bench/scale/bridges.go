package scale

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/bench/internal/figures"
	"github.com/delaybridge/delaybridge/bench/internal/lab"
	"github.com/delaybridge/delaybridge/internal/servers"
)

const bridgesRounds = 3

// bridges compares two bridge processes with one, at the same backlog, and has
// each of them die in the middle of one.
func (s *suite) bridges(ctx context.Context) error {
	return onServers(ctx, func(_ *servers.Pair, site *site) (err error) {
		first, err := s.startBridge(ctx, site, "first")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, first.stop()) }()
		var one, two []float64
		for round := range bridgesRounds {
			for _, both := range lab.InTurns([]bool{false, true}, round) {
				rate, err := s.withSecond(ctx, site, both, fmt.Sprint("bridges", round, both))
				if err != nil {
					return err
				}
				if both {
					two = append(two, rate)
				} else {
					one = append(one, rate)
				}
			}
			lab.Say("bridges %d of %d: one %.0f/s, two %.0f/s", round+1, bridgesRounds, one[round], two[round])
		}
		s.figures["two_bridges_over_one"] = figures.Ratio(two, one)
		return s.killed(ctx, site, first)
	})
}

// withSecond measures how fast one or two bridges promote a backlog.
func (s *suite) withSecond(ctx context.Context, site *site, both bool, load string) (rate float64, err error) {
	if both {
		second, err := s.startBridge(ctx, site, "second")
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, second.stop()) }()
	}
	due, err := parkBacklog(ctx, site, load, backlog)
	if err != nil {
		return 0, err
	}
	if owners, err := site.owners(ctx); both && (err != nil || len(owners) != 2) {
		return 0, errors.Join(fmt.Errorf("the work is not shared: %v", owners), err)
	}
	took, err := site.awaitLanes(ctx, due, backlog)
	if err != nil {
		return 0, err
	}
	return backlog / took.Seconds(), site.purge()
}

// awaitLanes waits until all n messages of the load are in the lanes, or out of
// them, and returns how long that took from when the first was to be promoted.
func (s *site) awaitLanes(ctx context.Context, due time.Time, n int) (time.Duration, error) {
	ch, err := s.Conn.Channel()
	if err != nil {
		return 0, err
	}
	defer func() { _ = ch.Close() }()
	began := due.Add(-promoteLead)
	for time.Since(began) < promotePatience {
		inside := n - s.Arrivals().Missing()
		for shard := range s.Topology.Shards() {
			q, err := ch.QueueDeclarePassive(s.Topology.Lane(promoteLead, shard), true, false, false, false, nil)
			if err != nil {
				return 0, err
			}
			inside += q.Messages
		}
		if inside >= n {
			return time.Since(began), nil
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return 0, fmt.Errorf("less than %d messages are promoted after %v", n, promotePatience)
}

// killed has a bridge die while it promotes, and wants everything to come out.
func (s *suite) killed(ctx context.Context, site *site, victim *bridgeProgram) (err error) {
	second, err := s.startBridge(ctx, site, "second")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, second.stop()) }()
	due, err := parkBacklog(ctx, site, "killed", backlog)
	if err != nil {
		return err
	}
	a := site.Arrivals()
	time.Sleep(time.Until(due.Add(-promoteLead + 2*time.Second)))
	if err := victim.kill(); err != nil {
		return err
	}
	if err := site.Await(ctx, a, promotePatience); err != nil {
		return err
	}
	lab.Say("bridges: one was killed amid a backlog: lost 0 of %d, twice %d", backlog, a.Again)
	return nil
}
