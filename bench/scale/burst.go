package scale

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/bench/internal/figures"
	"github.com/delaybridge/delaybridge/bench/internal/lab"
	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/message"
)

const (
	burstRounds = 3
	floodNumber = 1_000_000
	floodWait   = 150 * time.Second // from the first message parked until they are due
	floodMost   = 5 * time.Minute   // from then until all must be out
)

// burst compares how fast a hundred thousand messages that are due in the same
// second come out: parked and promoted, or already in one queue of the broker,
// in due order, with what is left of their time as their TTL.
func (s *suite) burst(ctx context.Context) error {
	return onServers(ctx, func(_ *servers.Pair, site *site) (err error) {
		bridge, err := s.startBridge(ctx, site, "bridge")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, bridge.stop()) }()
		raw, err := newRawBurst(site)
		if err != nil {
			return err
		}
		var ours, theirs []float64
		disorder := 0.0
		for round := range burstRounds {
			for _, turn := range lab.InTurns([]bool{true, false}, round) {
				var first time.Time
				if turn {
					first, err = parkBacklog(ctx, site, fmt.Sprint("burst", round), backlog)
				} else {
					first, err = raw.publish(ctx, site, fmt.Sprint("raw", round))
				}
				if err != nil {
					return err
				}
				rate, err := site.drain(ctx, first)
				if err != nil {
					return err
				}
				if turn {
					ours, disorder = append(ours, rate), max(disorder, disorderOf(site.Arrivals().At, backlogSpread, 0.99))
				} else {
					theirs = append(theirs, rate)
				}
			}
			lab.Say("burst %d of %d: ours %.0f/s, raw %.0f/s", round+1, burstRounds, ours[round], theirs[round])
		}
		s.figures["burst100k_over_raw"] = figures.Ratio(ours, theirs)
		s.figures["burst100k_disorder_p99_ms"] = disorder
		return nil
	})
}

// drain waits for the load to come out, and returns how many messages did so in
// a second, from when the first was due.
func (s *site) drain(ctx context.Context, first time.Time) (float64, error) {
	a := s.Arrivals()
	if err := s.Await(ctx, a, promotePatience); err != nil {
		return 0, err
	}
	return float64(len(a.At)) / slices.MaxFunc(a.At, time.Time.Compare).Sub(first).Seconds(), nil
}

// disorderOf returns by how much, in ms of due time, a message came out after one
// that was due later, in the given quantile; the messages are due evenly within
// a time, in the order of their numbers.
func disorderOf(at []time.Time, spread time.Duration, q float64) float64 {
	order := make([]int, len(at))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(x, y int) int { return cmp.Or(at[x].Compare(at[y]), cmp.Compare(x, y)) })
	behind := make([]float64, len(order))
	farthest := 0
	for k, i := range order {
		farthest = max(farthest, i)
		behind[k] = float64(farthest-i) * float64(spread.Milliseconds()) / float64(len(order))
	}
	return figures.Quantile(behind, q)
}

// rawBurst is one queue like a lane.
type rawBurst struct {
	channel *amqp.Channel
	queue   string
}

func newRawBurst(site *site) (*rawBurst, error) {
	ch, err := site.Conn.Channel()
	if err != nil {
		return nil, err
	}
	if err := ch.Confirm(false); err != nil {
		return nil, err
	}
	r := &rawBurst{channel: ch, queue: "bench.rawburst"}
	lane := site.Topology.Lane(promoteLead, 0)
	for _, q := range site.Topology.Queues() {
		if q.Name != lane {
			continue
		}
		if err := ch.ExchangeDeclare(r.queue, amqp.ExchangeFanout, true, false, false, false, nil); err != nil {
			return nil, err
		}
		if _, err := ch.QueueDeclare(r.queue, true, false, false, false, q.Args); err != nil {
			return nil, err
		}
	}
	return r, ch.QueueBind(r.queue, "", r.queue, false, nil)
}

// publish returns when the first message is due.
func (r *rawBurst) publish(ctx context.Context, site *site, load string) (time.Time, error) {
	first := time.Now().Add(promoteLead - backlogSpread).Truncate(time.Second)
	a := site.Begin(load, backlog)
	body := make([]byte, lab.BodyBytes)
	confirms := make([]*amqp.DeferredConfirmation, backlog)
	for i := range confirms {
		now := time.Now()
		due := first.Add(part(backlogSpread, i, backlog))
		m := message.Message{ID: a.ID(i), RoutingKey: lab.RoutingKey, Body: body}
		p := m.Publishing(message.Journey{Published: now, Due: due, Path: message.Path("parked, then lane 30s")})
		p.Expiration = strconv.FormatInt(max(0, due.Sub(now).Milliseconds()), 10)
		var err error
		if confirms[i], err = r.channel.PublishWithDeferredConfirmWithContext(ctx, r.queue, lab.RoutingKey, true, false, p); err != nil {
			return first, err
		}
	}
	for _, confirm := range confirms {
		if ok, err := confirm.WaitContext(ctx); err != nil || !ok {
			return first, errors.Join(errors.New("not confirmed"), err)
		}
	}
	return first, nil
}

// flooded has a million messages come due in the same second.
func (s *suite) flooded(ctx context.Context) error {
	return onServers(ctx, func(_ *servers.Pair, site *site) (err error) {
		bridge, err := s.startBridge(ctx, site, "bridge")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, bridge.stop()) }()
		first := time.Now().Add(floodWait).Truncate(time.Second)
		a := site.Begin("flood", floodNumber)
		body := make([]byte, lab.BodyBytes)
		if err := lab.Each(floodNumber, promoteHands, func(i int) error {
			m := message.Message{ID: a.ID(i), RoutingKey: lab.RoutingKey, Body: body}
			_, err := site.Producer.Publish(ctx, m, message.At(first.Add(part(backlogSpread, i, floodNumber))))
			return err
		}); err != nil {
			return err
		}
		lab.Say("burst1m: all parked %v before they are due", time.Until(first).Round(time.Second))
		if err := site.Await(ctx, a, time.Until(first)+floodMost); err != nil {
			lab.Say("burst1m: %v", err) // the figure says how many
		}
		peak, err := bridge.peakMB()
		if err != nil {
			return err
		}
		lost, last := 0, first
		for _, at := range a.At {
			if at.IsZero() {
				lost++
			} else if at.After(last) {
				last = at
			}
		}
		lab.Say("burst1m: the last came out %v after the first was due", last.Sub(first).Round(time.Second))
		s.figures["burst1m_lost"], s.figures["burst1m_rss_mb"] = float64(lost), peak
		return nil
	})
}
