package scale

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/bench/internal/lab"
	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/message"
)

const (
	parkRounds = 5
	parkNumber = 60_000
	parkPipes  = 8 // connections of the bare way
	parkPipe   = 128
)

// parking compares our producer with the two commands that store as much and
// promise nothing: as many in flight, as many bytes.
func (s *suite) parking(ctx context.Context) error {
	return onServers(ctx, func(_ *servers.Pair, site *site) error {
		var ours, bare []float64
		for round := range parkRounds {
			for _, turn := range lab.InTurns([]bool{true, false}, round) {
				var rate float64
				var err error
				if turn {
					rate, err = parkOurs(ctx, site, round)
					ours = append(ours, rate)
				} else {
					rate, err = parkBare(ctx, site, round)
					bare = append(bare, rate)
				}
				if err != nil {
					return err
				}
			}
			lab.Say("park %d of %d: ours %.0f/s, bare %.0f/s", round+1, parkRounds, ours[round], bare[round])
		}
		s.compare("park", ours, bare)
		return nil
	})
}

func parkOurs(ctx context.Context, site *site, round int) (float64, error) {
	body := make([]byte, lab.BodyBytes)
	began := time.Now()
	err := lab.Each(parkNumber, parkPipes*parkPipe, func(i int) error {
		m := message.Message{ID: lab.LongID(round, i), RoutingKey: lab.RoutingKey, Body: body}
		_, err := site.Producer.Publish(ctx, m, message.After(lab.ParkedAhead+time.Duration(i)*time.Millisecond))
		return err
	})
	return parkNumber / time.Since(began).Seconds(), err
}

func parkBare(ctx context.Context, site *site, round int) (float64, error) {
	due := time.Now().Add(lab.ParkedAhead)
	began := time.Now()
	err := storeBare(ctx, site, fmt.Sprint("bare:", round), parkNumber, lab.BodyBytes, func(i int) (string, time.Time) {
		return lab.LongID(round, i), due.Add(time.Duration(i) * time.Millisecond)
	})
	return parkNumber / time.Since(began).Seconds(), err
}

// storeBare stores what a parked message is in a sorted set and a hash.
func storeBare(ctx context.Context, site *site, name string, n, body int, entry func(i int) (id string, due time.Time)) error {
	envelope := make([]byte, 16+len(lab.RoutingKey)+body) // as much as ours: two instants, routing key and body
	return pipes(ctx, site, n, func(p redis.Pipeliner, i int) {
		id, due := entry(i)
		p.ZAdd(ctx, name+":ids", redis.Z{Score: float64(due.UnixMilli()), Member: id})
		p.HSet(ctx, name+":envelopes", id, envelope)
	})
}

// pipes sends commands for each of n messages.
func pipes(ctx context.Context, site *site, n int, commands func(p redis.Pipeliner, i int)) error {
	return lab.Each((n+parkPipe-1)/parkPipe, parkPipes, func(pipe int) error {
		_, err := site.Client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := pipe * parkPipe; i < min(n, (pipe+1)*parkPipe); i++ {
				commands(p, i)
			}
			return nil
		})
		return err
	})
}
