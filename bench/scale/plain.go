package scale

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/bench/internal/figures"
	"github.com/delaybridge/delaybridge/bench/internal/lab"
	"github.com/delaybridge/delaybridge/internal/servers"
)

// plain measures what a sorted set and a hash alone cost Redis beside ten million, as
// crowded does for what is parked: so much of the latter is Redis' own.
func (s *suite) plain(ctx context.Context) error {
	return onServers(ctx, func(_ *servers.Pair, site *site) error {
		var cost [2][2][]float64 // beside few, and many; to store, and to take out
		due := time.Now().Add(crowdFrom)
		held := 0
		for stage, n := range []int{fewParked, s.crowd} {
			if err := site.flushSeldom(ctx, func() error {
				return storeBare(ctx, site, "plain", n-held, crowdBody, func(i int) (string, time.Time) {
					return lab.LongID(0, held+i), due.Add(part(crowdSpread, held+i, s.crowd))
				})
			}); err != nil {
				return err
			}
			held = n
			if err := site.rewriteAOF(ctx); err != nil {
				return err
			}
			for round := range crowdRounds {
				spent, err := site.plainOnce(ctx, round, due)
				if err != nil {
					return err
				}
				for i, us := range spent {
					cost[stage][i] = append(cost[stage][i], us)
				}
			}
		}
		for i, what := range []string{"park", "cancel"} {
			r := figures.Ratio(cost[1][i], cost[0][i])
			lab.Say("plain: to %s costs Redis %.1f us a message, and %.1f us beside %d: %.2f", what,
				figures.Median(cost[0][i]), figures.Median(cost[1][i]), s.crowd, r)
			s.figures["plain_10m_over_10k_"+what] = r
		}
		return nil
	})
}

// plainOnce returns the microseconds that Redis spends on storing a message, and on taking
// it out.
func (s *site) plainOnce(ctx context.Context, round int, due time.Time) (us [2]float64, err error) {
	before, err := s.redisCPU(ctx)
	if err != nil {
		return us, err
	}
	for i, do := range []func() error{
		func() error {
			return storeBare(ctx, s, "plain", costNumber, crowdBody, func(i int) (string, time.Time) {
				return lab.LongID(1+round, i), due.Add(part(crowdSpread, i, costNumber))
			})
		},
		func() error {
			return pipes(ctx, s, costNumber, func(p redis.Pipeliner, i int) {
				id := lab.LongID(1+round, i)
				p.ZRem(ctx, "plain:ids", id)
				p.HDel(ctx, "plain:envelopes", id)
			})
		},
	} {
		if err := do(); err != nil {
			return us, fmt.Errorf("plain: %w", err)
		}
		after, err := s.redisCPU(ctx)
		if err != nil {
			return us, err
		}
		us[i] = (after - before) * 1e6 / costNumber
		before = after
	}
	return us, nil
}
