package scenarios

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/redisserver"
	"github.com/delaybridge/delaybridge/internal/sleep"
)

func redisScenarios() []Scenario {
	needs := []string{redisServer}
	return []Scenario{
		{"redis killed", needs, Anywhere, func(i *injection) error {
			defer i.breaks("kill -9 Redis")()
			err := i.Redis.Kill(i.ctx)
			i.hold(0, 2*time.Second)
			return errors.Join(err, i.Redis.Restart(i.ctx))
		}},
		{"redis stopped", needs, Anywhere, func(i *injection) error {
			defer i.breaks("Redis stands still")()
			err := i.Redis.Pause(i.ctx)
			i.hold(500*time.Millisecond, 6*time.Second)
			return errors.Join(err, i.Redis.Resume(i.ctx))
		}},
		{"redis scripts flushed", needs, Anywhere, func(i *injection) error {
			defer i.breaks("SCRIPT FLUSH")()
			return i.WithRedis(func(c *redis.Client) error { return c.ScriptFlush(i.ctx).Err() })
		}},
		{"redis full", needs, Anywhere, func(i *injection) error {
			defer i.breaks("Redis is full (OOM)")()
			return i.WithRedis(func(c *redis.Client) error {
				err := c.ConfigSet(i.ctx, "maxmemory", "1mb").Err()
				i.hold(time.Second, 5*time.Second)
				return errors.Join(err, c.ConfigSet(i.ctx, "maxmemory", "0").Err())
			})
		}},
		{"redis loading", needs, Anywhere, (*injection).load},
		{"redis busy", needs, Anywhere, (*injection).keepBusy},
		{"redis replica promoted", []string{redisServer, redisNet}, Anywhere, (*injection).promoteReplica},
		{"redis clock stepped", []string{redisServer, redisNet}, Anywhere, (*injection).stepClock},
		// What else is under way in Redis meanwhile would be lost, too.
		{"redis loses writes", everything(), Anywhere, (*injection).loseWrites},
	}
}

// ballast is how many keys more Redis has to load, at each try, before it answers.
const ballast = 1_000_000

// load kills Redis when its file is so long that it answers LOADING for a while.
func (i *injection) load() error {
	const fill = `for n = ARGV[1] + 1, tonumber(ARGV[2]) do redis.call('SET', 'ballast:' .. n, n) end`
	const clear = `for n = ARGV[1] + 1, tonumber(ARGV[2]) do redis.call('UNLINK', 'ballast:' .. n) end`
	each := func(script string, from, to int) error {
		return i.WithRedis(func(c *redis.Client) error { return ignoreNil(c.Eval(i.ctx, script, nil, from, to).Err()) })
	}
	defer i.breaks("Redis is killed and loads many keys (LOADING)")()
	seen, keys, err := false, 0, error(nil)
	for try := 0; try < 5 && !seen && err == nil; try++ { // it may be done before we look
		if err = each(fill, keys, keys+ballast); err == nil {
			keys += ballast
			seen, err = i.seesLoading()
		}
	}
	if !seen && err == nil {
		err = errors.New("redis loading: it never answered LOADING")
	}
	for ; keys > 0; keys -= ballast {
		err = errors.Join(err, each(clear, keys-ballast, keys))
	}
	return err
}

// seesLoading kills Redis, starts it again, and reports whether it has answered
// LOADING meanwhile.
func (i *injection) seesLoading() (bool, error) {
	if err := i.Redis.Kill(i.ctx); err != nil {
		return false, err
	}
	watching, stop := context.WithCancel(i.ctx)
	loading := make(chan bool, 1)
	go func() { loading <- i.sees(watching, "LOADING") }()
	err := i.Redis.Restart(i.ctx)
	stop()
	return <-loading, err
}

// sees asks Redis until it answers with an error of the given kind.
func (i *injection) sees(ctx context.Context, kind string) bool {
	for ctx.Err() == nil {
		// A port that is being published may accept a connection and never answer.
		err := i.WithRedisWithin(200*time.Millisecond, func(c *redis.Client) error { return c.Ping(ctx).Err() })
		if err != nil && strings.Contains(err.Error(), kind) {
			return true
		}
		sleep.For(ctx, 5*time.Millisecond)
	}
	return false
}

// ignoreNil drops the answer of a script that returns nothing.
func ignoreNil(err error) error {
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}

// keepBusy runs a script that does not end, until it is killed.
func (i *injection) keepBusy() error {
	defer i.breaks("Redis runs a script that does not end (BUSY)")()
	return i.WithRedis(func(c *redis.Client) error {
		if err := c.ConfigSet(i.ctx, "lua-time-limit", "50").Err(); err != nil {
			return err
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = i.WithRedis(func(c *redis.Client) error { return c.Eval(i.ctx, `while true do end`, nil).Err() })
		}()
		i.hold(500*time.Millisecond, 4*time.Second)
		// The killer may come before the script.
		if !i.until(10*time.Second, func() bool { return c.ScriptKill(i.ctx).Err() == nil }) {
			return errors.New("redis busy: the script cannot be killed")
		}
		<-ended
		return c.ConfigSet(i.ctx, "lua-time-limit", "5000").Err()
	})
}

// promoteReplica moves to a replica, which has all that was acknowledged.
func (i *injection) promoteReplica() error {
	replica, err := i.replica(servers.Config{})
	if err != nil {
		return err
	}
	defer i.breaks("a replica of Redis is promoted, and the old server answers READONLY")()
	return i.handOver(replica)
}

// stepClock moves to a replica whose clock is wrong, and from there to one whose clock is right.
func (i *injection) stepClock() error {
	ahead := i.between(mostStep/4, mostStep)
	if i.rng.IntN(2) == 0 {
		ahead = -ahead
	}
	wrong, err := i.replica(servers.Config{RedisAhead: ahead})
	if errors.Is(err, servers.ErrNoOtherClock) {
		i.Say("NOT TRIED: %s: %v", i.Name, err)
		return nil
	}
	if err != nil {
		return err
	}
	least, most, err := wrong.Ahead(i.ctx)
	if err != nil {
		return errors.Join(err, wrong.Stop(i.ctx))
	}
	if ahead = most; most < 0 { // the checker allows for the bound that is further off
		ahead = least
	}
	defer i.breaksAs(history.Event{Detail: fmt.Sprintf("the clock of Redis is wrong by %v", ahead.Round(time.Millisecond)), Steps: ahead.Microseconds()})()
	if err := i.handOver(wrong); err != nil {
		return err
	}
	i.hold(time.Second, 5*time.Second)
	right, err := i.replica(servers.Config{})
	if err != nil {
		return err
	}
	return i.handOver(right)
}

// mostStep is by how much the clock of Redis may be wrong. By five seconds it would tell two
// messages with one ID apart wrongly (redisbridge/internal/store/lua/lib.lua, clocks_ms).
const mostStep = 3 * time.Second

// replica starts another server, which has all that Redis has.
func (i *injection) replica(config servers.Config) (*redisserver.Node, error) {
	replica, err := servers.StartRedis(i.ctx, config)
	if err != nil {
		return nil, err
	}
	if err := replica.Replicate(i.ctx, i.Redis); err != nil {
		return nil, errors.Join(err, replica.Stop(i.ctx))
	}
	return replica, nil
}

// handOver has a replica take over. The old server answers READONLY until the address has moved.
func (i *injection) handOver(replica *redisserver.Node) error {
	if err := i.Redis.FailOver(i.ctx); err != nil {
		return errors.Join(err, replica.Stop(i.ctx))
	}
	i.hold(500*time.Millisecond, 3*time.Second)
	return i.MoveRedis(replica)
}

// loseWrites kills Redis, and promotes a replica that has not got the last writes. Neither had
// been asked to wait for the other.
func (i *injection) loseWrites() error {
	if !i.awaitCalm() {
		return i.ctx.Err()
	}
	replica, err := i.replica(servers.Config{})
	if err != nil {
		return err
	}
	defer i.breaksAs(history.Event{Detail: "Redis is killed, and a replica promoted that lacks the last writes", Loses: true})()
	if err := replica.Promote(i.ctx); err != nil {
		return errors.Join(err, replica.Stop(i.ctx))
	}
	i.hold(100*time.Millisecond, 2*time.Second)
	return errors.Join(i.Redis.Kill(i.ctx), i.MoveRedis(replica))
}
