package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/message"
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
func (s *scale) crowded(ctx context.Context) (err error) {
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
		defer empty.close()
		if _, err := empty.fill(ctx, fewParked, crowdSpread); err != nil {
			return err
		}
		if s.figures["redis_overhead_bytes"], err = full.fill(ctx, s.crowd, crowdSpread); err != nil {
			return err
		}
		say("crowd: %d parked, %.0f bytes each over body and ID", s.crowd, s.figures["redis_overhead_bytes"])
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

// fill parks n messages that are due within a time, and returns the memory that each takes over
// body and ID.
func (s *site) fill(ctx context.Context, n int, within time.Duration) (overhead float64, err error) {
	before, err := s.info(ctx, "memory", "used_memory")
	if err != nil {
		return 0, err
	}
	body := make([]byte, crowdBody)
	began := time.Now()
	if err := s.flushSeldom(ctx, func() error {
		return each(n, promoteHands, func(i int) error {
			if i > 0 && i%1_000_000 == 0 {
				say("crowd: %d parked, %.0f/s", i, float64(i)/time.Since(began).Seconds())
			}
			return s.publishFar(ctx, longID(0, i), body, part(within, i, n))
		})
	}); err != nil {
		return 0, err
	}
	after, err := s.info(ctx, "memory", "used_memory")
	return (after-before)/float64(n) - crowdBody - longIDLength, err
}

// flushSeldom fills Redis, which for once need not flush each message to disk.
func (s *site) flushSeldom(ctx context.Context, fill func() error) (err error) {
	for _, setting := range [][2]string{{"appendfsync", "everysec"}, {"auto-aof-rewrite-percentage", "0"}} {
		before, err := s.client.ConfigGet(ctx, setting[0]).Result()
		if err != nil {
			return err
		}
		if err := s.client.ConfigSet(ctx, setting[0], setting[1]).Err(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.client.ConfigSet(ctx, setting[0], before[setting[0]]).Err()) }()
	}
	return fill()
}

// rewriteAOF has Redis do at once what it would begin by itself some time after a
// filling, and waits for the end: meanwhile each page that changes is copied.
func (s *site) rewriteAOF(ctx context.Context) error {
	began := time.Now()
	if err := s.client.BgRewriteAOF(ctx).Err(); err != nil && !strings.Contains(err.Error(), "in progress") {
		return err
	}
	for {
		running, err := s.info(ctx, "persistence", "aof_rewrite_in_progress")
		if err != nil {
			return err
		}
		if running == 0 {
			say("crowd: AOF rewritten in %.0f s", time.Since(began).Seconds())
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func (s *site) publishFar(ctx context.Context, id string, body []byte, offset time.Duration) error {
	m := message.Message{ID: id, RoutingKey: routingKey, Body: body}
	receipt, err := s.producer.Publish(ctx, m, message.After(crowdFrom+offset+time.Millisecond))
	if err == nil && (receipt.Path != message.PathParked || receipt.Duplicate) {
		err = fmt.Errorf("message %s is not parked", id)
	}
	return err
}

// part returns i nths of d.
func part(d time.Duration, i, n int) time.Duration {
	return time.Duration(float64(d) * float64(i) / float64(n))
}

// info returns a number that Redis tells of itself.
func (s *site) info(ctx context.Context, section, name string) (float64, error) {
	text, err := s.client.Info(ctx, section).Result()
	if err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+":"); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("INFO %s has no %s", section, name)
}

// redisCPU is the time that Redis' main thread has spent on a processor.
func (s *site) redisCPU(ctx context.Context) (float64, error) {
	user, err := s.info(ctx, "cpu", "used_cpu_user_main_thread")
	if err != nil {
		return 0, err
	}
	system, err := s.info(ctx, "cpu", "used_cpu_sys_main_thread")
	return user + system, err
}

// costs compares what Redis spends on parking, taking out, and promoting a
// message, in time on a processor.
func (s *scale) costs(ctx context.Context, full, empty *site) (err error) {
	cost := map[*site]*[3][]float64{full: {}, empty: {}}
	for round := range crowdRounds {
		for _, site := range inTurns([]*site{full, empty}, round) {
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
		r := ratio(cost[full][i], cost[empty][i])
		say("crowd: %s costs Redis %.1f us a message, and %.1f us beside %d: %.2f", what,
			median(cost[empty][i]), median(cost[full][i]), s.crowd, r)
		s.figures["cost_10m_over_10k_"+what] = r
		worst = max(worst, r)
	}
	s.figures["cost_10m_over_10k"] = worst
	return nil
}

// costOnce returns the microseconds that Redis spends on each of three steps of
// a message.
func (s *scale) costOnce(ctx context.Context, site *site, round int) (us [3]float64, err error) {
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
		return each(costNumber, promoteHands, func(i int) error {
			return site.publishFar(ctx, longID(1+round, i), body, part(crowdSpread, i, costNumber))
		})
	})
	if err != nil {
		return us, err
	}
	err = step(1, func() error {
		return each(costNumber, promoteHands, func(i int) error {
			out, err := site.park.Cancel(ctx, longID(1+round, i))
			if err == nil && out.Outcome != redisbridge.OutcomeDone {
				err = errors.New("a message that was parked cannot be cancelled")
			}
			return err
		})
	})
	if err != nil {
		return us, err
	}
	bridge, err := s.startBridge(ctx, site, fmt.Sprint(site.topology.Prefix(), round))
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

// loaded compares lateness beside the crowd with that beside nobody.
func (s *scale) loaded(ctx context.Context, full, empty *site) (err error) {
	late := map[*site]*result{full: {}, empty: {}}
	for _, site := range []*site{full, empty} {
		bridge, err := s.startBridge(ctx, site, site.topology.Prefix())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, bridge.stop()) }()
	}
	for round := range crowdRounds {
		for _, site := range inTurns([]*site{full, empty}, round) {
			said, err := site.pace(ctx, arbitraryPath{site.producer}, late[site])
			if err != nil {
				return err
			}
			say("crowd: pace %d of %d beside %s: %s", round+1, crowdRounds, map[bool]string{true: "the crowd", false: "nobody"}[site == full], said)
		}
	}
	s.figures["loaded_p99_over_empty"] = ratio(late[full].p99, late[empty].p99)
	s.figures["early"] += float64(late[full].early + late[empty].early)
	return nil
}

// idle counts what a bridge does beside the crowd when nothing is due.
func (s *scale) idle(ctx context.Context, full *site) (err error) {
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
	s.figures["idle_commands_per_s"] = round3((commands[1] - commands[0] - 1) / idleFor.Seconds()) // INFO itself
	s.figures["idle_cpu"] = round3(100 * (cpu[1] - cpu[0]) / idleFor.Seconds())
	return nil
}
