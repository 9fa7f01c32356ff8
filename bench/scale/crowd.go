package scale

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/bench/internal/figures"
	"github.com/delaybridge/delaybridge/bench/internal/lab"
	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/redisbridge"
)

const (
	fewParked    = 10_000
	crowdBody    = 200
	crowdFrom    = 2 * time.Hour // nothing is due within the hour
	crowdSpread  = 24 * time.Hour
	crowdRounds  = 5
	costNumber   = 20_000
	idleFor      = time.Minute
	longIDLength = 26
)

// crowded puts ten million messages beside the work, and compares it with the
// work of an installation that holds next to none: another Redis, the same
// broker, and in turns.
func (s *suite) crowded(ctx context.Context) (err error) {
	return onServers(ctx, func(pair *servers.Pair, full *site) (err error) {
		store, err := servers.StartStore(ctx, servers.Config{Choice: pair.Choice})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, store.Stop(context.WithoutCancel(ctx))) }()
		empty, err := newSite(ctx, "empty", pair.RabbitMQ, store)
		if err != nil {
			return err
		}
		defer empty.Close()
		if _, err := empty.fill(ctx, fewParked, crowdSpread); err != nil {
			return err
		}
		if s.figures["redis_overhead_bytes"], err = full.fill(ctx, s.crowd, crowdSpread); err != nil {
			return err
		}
		lab.Say("crowd: %d parked, %.0f bytes each over body and ID", s.crowd, s.figures["redis_overhead_bytes"])
		if err := full.rewriteAOF(ctx); err != nil {
			return err
		}
		if err := s.costs(ctx, full, empty); err != nil {
			return err
		}
		if err := s.loaded(ctx, full, empty); err != nil {
			return err
		}
		return s.idle(ctx, full)
	})
}

// costs compares what Redis spends on parking, taking out, and promoting a
// message, in time on a processor.
func (s *suite) costs(ctx context.Context, full, empty *site) (err error) {
	cost := map[*site]*[3][]float64{full: {}, empty: {}}
	for round := range crowdRounds {
		for _, site := range lab.InTurns([]*site{full, empty}, round) {
			spent, err := s.costOnce(ctx, site, round)
			if err != nil {
				return err
			}
			for i, us := range spent {
				cost[site][i] = append(cost[site][i], us)
			}
		}
	}
	worst := 0.0
	for i, what := range []string{"park", "cancel", "promote"} {
		r := figures.Ratio(cost[full][i], cost[empty][i])
		lab.Say("crowd: %s costs Redis %.1f us a message, and %.1f us beside %d: %.2f", what,
			figures.Median(cost[empty][i]), figures.Median(cost[full][i]), s.crowd, r)
		s.figures["cost_10m_over_10k_"+what] = r
		worst = max(worst, r)
	}
	s.figures["cost_10m_over_10k"] = worst
	return nil
}

// costOnce returns the microseconds that Redis spends on each of three steps of
// a message.
func (s *suite) costOnce(ctx context.Context, site *site, round int) (us [3]float64, err error) {
	body := make([]byte, crowdBody)
	before, err := site.redisCPU(ctx)
	if err != nil {
		return us, err
	}
	step := func(i int, do func() error) error {
		if err := do(); err != nil {
			return err
		}
		after, err := site.redisCPU(ctx)
		us[i] = (after - before) * 1e6 / costNumber
		before = after
		return err
	}
	err = step(0, func() error {
		return lab.Each(costNumber, promoteHands, func(i int) error {
			return site.publishFar(ctx, lab.LongID(1+round, i), body, part(crowdSpread, i, costNumber))
		})
	})
	if err != nil {
		return us, err
	}
	err = step(1, func() error {
		return lab.Each(costNumber, promoteHands, func(i int) error {
			out, err := site.Park.Cancel(ctx, lab.LongID(1+round, i))
			if err == nil && out.Outcome != redisbridge.OutcomeDone {
				err = errors.New("a message that was parked cannot be cancelled")
			}
			return err
		})
	})
	if err != nil {
		return us, err
	}
	bridge, err := s.startBridge(ctx, site, fmt.Sprint(site.Topology.Prefix(), round))
	if err != nil {
		return us, err
	}
	defer func() { err = errors.Join(err, bridge.stop()) }()
	due, err := parkBacklog(ctx, site, fmt.Sprint("cost", round), costNumber)
	if err != nil {
		return us, err
	}
	if before, err = site.redisCPU(ctx); err != nil {
		return us, err
	}
	err = step(2, func() error {
		_, err := site.awaitLanes(ctx, due, costNumber)
		time.Sleep(100 * time.Millisecond) // for the last to be settled
		return err
	})
	return us, errors.Join(err, site.purge())
}

// loaded compares lateness beside the crowd with lateness beside an empty Redis.
func (s *suite) loaded(ctx context.Context, full, empty *site) (err error) {
	late := map[*site]*lab.Result{full: {}, empty: {}}
	for _, site := range []*site{full, empty} {
		bridge, err := s.startBridge(ctx, site, site.Topology.Prefix())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, bridge.stop()) }()
	}
	for round := range crowdRounds {
		for _, site := range lab.InTurns([]*site{full, empty}, round) {
			said, err := site.Pace(ctx, lab.Arbitrary(site.Producer), late[site])
			if err != nil {
				return err
			}
			lab.Say("crowd: pace %d of %d beside %s: %s", round+1, crowdRounds, map[bool]string{true: "the crowd", false: "none"}[site == full], said)
		}
	}
	s.figures["loaded_p99_over_empty"] = figures.Ratio(late[full].P99, late[empty].P99)
	s.figures["early"] += float64(late[full].Early + late[empty].Early)
	return nil
}

// idle counts what a bridge does beside the crowd when nothing is due.
func (s *suite) idle(ctx context.Context, full *site) (err error) {
	bridge, err := s.startBridge(ctx, full, "idle")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bridge.stop()) }()
	time.Sleep(5 * time.Second) // past its start
	var commands, cpu [2]float64
	for i := range 2 {
		if i == 1 {
			time.Sleep(idleFor)
		}
		if commands[i], err = full.info(ctx, "stats", "total_commands_processed"); err != nil {
			return err
		}
		spent, err := bridge.cpu()
		if err != nil {
			return err
		}
		cpu[i] = spent.Seconds()
	}
	s.figures["idle_commands_per_s"] = figures.Round((commands[1] - commands[0] - 1) / idleFor.Seconds()) // INFO itself
	s.figures["idle_cpu"] = figures.Round(100 * (cpu[1] - cpu[0]) / idleFor.Seconds())
	return nil
}
