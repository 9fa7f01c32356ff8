package main

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// lab is a site with a bridge in this process, and the bare tiers beside it.
type lab struct {
	*site
	bare  *amqp.Connection // of the bare path, as the producer has its own
	paths []path
}

func newLab(ctx context.Context, pair *servers.Pair) (*lab, error) {
	s, err := newSite(ctx, "bench", pair.RabbitMQ, pair.Redis)
	if err != nil {
		return nil, err
	}
	l := &lab{site: s}
	if err := s.bridge(ctx, redisbridge.Config{}); err != nil {
		return nil, err
	}
	if l.bare, err = amqp.Dial(pair.RabbitMQ.AMQPURL()); err != nil {
		return nil, err
	}
	raw, err := newRawPath(l.bare, s.topology)
	if err != nil {
		return nil, err
	}
	l.paths = []path{raw, exactPath{s.producer}, arbitraryPath{s.producer}}
	return l, nil
}

func (l *lab) close() {
	_ = l.bare.Close()
	l.site.close()
}

// arrivals is when each message of one load came out.
type arrivals struct {
	load  string
	at    []time.Time
	again int
	left  atomic.Int64
	done  chan struct{}
}

func newArrivals(load string, n int) *arrivals {
	a := &arrivals{load: load, at: make([]time.Time, n), done: make(chan struct{})}
	a.left.Store(int64(n))
	return a
}

func (a *arrivals) id(i int) string { return a.load + "/" + strconv.Itoa(i) }

// note is called by one goroutine.
func (a *arrivals) note(id string, now time.Time) {
	number, ours := strings.CutPrefix(id, a.load+"/")
	i, err := strconv.Atoi(number)
	if !ours || err != nil || i >= len(a.at) {
		return
	}
	if !a.at[i].IsZero() {
		a.again++
		return
	}
	a.at[i] = now
	if a.left.Add(-1) == 0 {
		close(a.done)
	}
}
