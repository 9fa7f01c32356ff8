package scale

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/delaybridge/delaybridge/bench/internal/lab"
	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/rabbitmq"
	"github.com/delaybridge/delaybridge/internal/servers/redisserver"
)

// site is one that tells more of its servers.
type site struct{ *lab.Site }

func newSite(ctx context.Context, prefix string, rabbitmq *rabbitmq.Node, store *redisserver.Store) (*site, error) {
	s, err := lab.NewSite(ctx, prefix, rabbitmq, store)
	return &site{s}, err
}

// onServers runs a measurement with a pair of servers and a site on them.
func onServers(ctx context.Context, do func(*servers.Pair, *site) error) error {
	pair, err := servers.Start(ctx, servers.Config{})
	if err != nil {
		return err
	}
	s, err := newSite(ctx, "bench", pair.RabbitMQ, pair.Redis)
	if err == nil {
		err = do(pair, s)
		s.Close()
	}
	return errors.Join(err, pair.Stop(context.WithoutCancel(ctx)))
}

// owners returns how many shards each bridge has.
func (s *site) owners(ctx context.Context) (map[string]int, error) {
	owners := map[string]int{}
	for shard := range s.Topology.Shards() {
		found, err := s.Client.HMGet(ctx, fmt.Sprintf("{%s:%d}:state", s.Topology.Prefix(), shard), "owner").Result()
		if err != nil {
			return nil, err
		}
		if owner, ok := found[0].(string); ok {
			owners[owner]++
		}
	}
	return owners, nil
}

// info returns a number that Redis tells of itself.
func (s *site) info(ctx context.Context, section, name string) (float64, error) {
	text, err := s.Client.Info(ctx, section).Result()
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

// purge empties the lanes, so that what was promoted does not come out during
// the next measurement.
func (s *site) purge() error {
	ch, err := s.Conn.Channel()
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
	for shard := range s.Topology.Shards() {
		if _, err := ch.QueuePurge(s.Topology.Lane(promoteLead, shard), false); err != nil {
			return err
		}
	}
	return nil
}
