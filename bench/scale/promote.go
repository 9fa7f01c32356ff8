package scale

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"

	"github.com/delaybridge/delaybridge/bench/internal/lab"
	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
)

const (
	backlog         = 100_000
	backlogSpread   = time.Second // all are due within it
	promoteRounds   = 3
	promoteHands    = 1024
	promoteWait     = 10 * time.Second // from parking to promotion
	promoteLead     = 30 * time.Second // TTL of the lane that this backlog is meant for
	unconfirmed     = 2048             // of a bare channel
	promotePatience = 2 * time.Minute
)

// promoting compares a bridge that promotes a backlog, from the first claim to
// the last settled message, with a program that has the same messages in memory
// and publishes them, confirmed, into as many queues with the same arguments.
func (s *suite) promoting(ctx context.Context) error {
	return onServers(ctx, func(_ *servers.Pair, site *site) error {
		stopwatch := &stopwatch{}
		if err := site.Bridge(ctx, redisbridge.Config{Observe: stopwatch.observe}); err != nil {
			return err
		}
		bare, err := newBarePromoter(site)
		if err != nil {
			return err
		}
		var ours, theirs []float64
		for round := range promoteRounds {
			for _, turn := range lab.InTurns([]bool{true, false}, round) {
				if turn {
					stopwatch.reset(backlog)
					if _, err := parkBacklog(ctx, site, fmt.Sprint("promote", round), backlog); err != nil {
						return err
					}
					took, err := stopwatch.wait(ctx)
					if err != nil {
						return err
					}
					ours = append(ours, backlog/took.Seconds())
				} else {
					rate, err := bare.run(ctx)
					if err != nil {
						return err
					}
					theirs = append(theirs, rate)
				}
				if err := site.purge(); err != nil {
					return err
				}
			}
			lab.Say("promote %d of %d: ours %.0f/s, bare %.0f/s", round+1, promoteRounds, ours[round], theirs[round])
		}
		s.compare("promote", ours, theirs)
		return nil
	})
}

// parkBacklog parks n messages that are to be promoted within the same second,
// a while from now. It returns when they are due.
func parkBacklog(ctx context.Context, site *site, name string, n int) (first time.Time, err error) {
	first = time.Now().Add(promoteWait + promoteLead).Truncate(time.Second)
	a := site.Begin(name, n)
	body := make([]byte, lab.BodyBytes)
	err = lab.Each(n, promoteHands, func(i int) error {
		m := message.Message{ID: a.ID(i), RoutingKey: lab.RoutingKey, Body: body}
		receipt, err := site.Producer.Publish(ctx, m, message.At(first.Add(part(backlogSpread, i, n))))
		if err == nil && receipt.Path != message.PathParked {
			err = errors.New("parking takes too long")
		}
		return err
	})
	return first, err
}

// stopwatch times n messages of a bridge.
type stopwatch struct {
	began atomic.Pointer[time.Time]
	left  atomic.Int64
	done  atomic.Pointer[chan time.Time]
}

func (w *stopwatch) reset(n int) {
	done := make(chan time.Time, 1)
	w.done.Store(&done)
	w.left.Store(int64(n))
	w.began.Store(nil)
}

func (w *stopwatch) observe(step redisbridge.Step, _ string, _ message.Path) {
	if step == redisbridge.StepClaimed && w.began.Load() == nil {
		now := time.Now()
		w.began.CompareAndSwap(nil, &now)
	}
	if step == redisbridge.StepSettled && w.left.Add(-1) == 0 {
		*w.done.Load() <- time.Now()
	}
}

func (w *stopwatch) wait(ctx context.Context) (time.Duration, error) {
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(promotePatience):
		return 0, fmt.Errorf("%d messages are not settled after %v", w.left.Load(), promotePatience)
	case end := <-*w.done.Load():
		return end.Sub(*w.began.Load()), nil
	}
}

// barePromoter publishes into queues of its own, one for each lane of a TTL.
type barePromoter struct {
	channels []*amqp.Channel
	queues   []string
}

func newBarePromoter(site *site) (*barePromoter, error) {
	lanes := map[string]amqp.Table{}
	for _, q := range site.Topology.Queues() {
		lanes[q.Name] = q.Args
	}
	b := &barePromoter{}
	for shard := range site.Topology.Shards() {
		lane := site.Topology.Lane(promoteLead, shard)
		ch, err := site.Conn.Channel()
		if err != nil {
			return nil, err
		}
		if err := ch.Confirm(false); err != nil {
			return nil, err
		}
		name := "bare." + lane
		if _, err := ch.QueueDeclare(name, true, false, false, false, lanes[lane]); err != nil {
			return nil, err
		}
		b.channels, b.queues = append(b.channels, ch), append(b.queues, name)
	}
	return b, nil
}

// run publishes the backlog as a bridge would, into the queues through the
// default exchange, and purges them.
func (b *barePromoter) run(ctx context.Context) (float64, error) {
	body := make([]byte, lab.BodyBytes)
	n := backlog / len(b.channels)
	began := time.Now()
	err := lab.Each(len(b.channels), len(b.channels), func(c int) error {
		waiting := make(chan *amqp.DeferredConfirmation, unconfirmed)
		var confirmed errgroup.Group
		confirmed.Go(func() error {
			for confirm := range waiting {
				if ok, err := confirm.WaitContext(ctx); err != nil || !ok {
					return errors.Join(errors.New("not confirmed"), err)
				}
			}
			return nil
		})
		err := func() error {
			defer close(waiting)
			for i := range n {
				now := time.Now()
				m := message.Message{ID: fmt.Sprintf("bare-%d/%d", c, i), RoutingKey: lab.RoutingKey, Body: body}
				p := m.Publishing(message.Journey{Published: now, Due: now.Add(promoteLead), Path: message.Path("parked, then lane 30s")})
				p.Expiration = strconv.FormatInt(promoteLead.Milliseconds(), 10)
				confirm, err := b.channels[c].PublishWithDeferredConfirmWithContext(ctx, "", b.queues[c], true, false, p)
				if err != nil {
					return err
				}
				waiting <- confirm
			}
			return nil
		}()
		return errors.Join(err, confirmed.Wait())
	})
	took := time.Since(began)
	for i, q := range b.queues {
		if _, purgeErr := b.channels[i].QueuePurge(q, false); err == nil {
			err = purgeErr
		}
	}
	return float64(n*len(b.channels)) / took.Seconds(), err
}
