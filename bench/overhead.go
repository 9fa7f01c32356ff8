package main

import (
	"context"
	"fmt"
	"io"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/bench/internal/figures"
	"github.com/delaybridge/delaybridge/bench/internal/lab"
	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// measureOverhead floods and paces each path in turns, and then the inbox.
func measureOverhead(ctx context.Context, out io.Writer, floods, paces int) (f figures.Figures, err error) {
	lab.Say("starting RabbitMQ and Redis")
	pair, err := servers.Start(ctx, servers.Config{})
	if err != nil {
		return nil, err
	}
	defer func() {
		if stopErr := pair.Stop(context.WithoutCancel(ctx)); err == nil {
			err = stopErr
		}
	}()
	o, err := newOverhead(ctx, pair)
	if err != nil {
		return nil, err
	}
	defer o.Close()

	results := map[string]*lab.Result{}
	for _, p := range o.paths {
		results[p.Name()] = &lab.Result{}
	}
	for _, load := range []struct {
		name   string
		rounds int
		run    func(context.Context, lab.Path, *lab.Result) (string, error)
	}{{"flood", floods, o.Flood}, {"pace", paces, o.Pace}} {
		for round := range load.rounds {
			for _, p := range lab.InTurns(o.paths, round) {
				said, err := load.run(ctx, p, results[p.Name()])
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", load.name, p.Name(), err)
				}
				lab.Say("%s %d of %d: %-9s  %s", load.name, round+1, load.rounds, p.Name(), said)
			}
		}
	}
	f = report(out, o.paths, results)
	f["inbox_over_plain"], err = o.inbox(ctx, floods)
	return f, err
}

// overhead is a site with a bridge in this process, and the bare tiers beside it.
type overhead struct {
	*lab.Site
	bare  *amqp.Connection // of the bare path, as the producer has its own
	paths []lab.Path
}

func newOverhead(ctx context.Context, pair *servers.Pair) (*overhead, error) {
	s, err := lab.NewSite(ctx, "bench", pair.RabbitMQ, pair.Redis)
	if err != nil {
		return nil, err
	}
	o := &overhead{Site: s}
	if err := s.Bridge(ctx, redisbridge.Config{}); err != nil {
		return nil, err
	}
	if o.bare, err = amqp.Dial(pair.RabbitMQ.AMQPURL()); err != nil {
		return nil, err
	}
	raw, err := lab.NewRaw(o.bare, s.Topology)
	if err != nil {
		return nil, err
	}
	o.paths = []lab.Path{raw, lab.Exact(s.Untracked), lab.Arbitrary(s.Producer)}
	return o, nil
}

func (o *overhead) Close() {
	_ = o.bare.Close()
	o.Site.Close()
}
