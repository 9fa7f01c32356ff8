package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/message"
)

const (
	parkRounds  = 5
	parkNumber  = 60_000
	parkPipes   = 8 // connections of the bare way
	parkPipe    = 128
	parkedAhead = 30 * 24 * time.Hour
)

// parking compares our producer with the two commands that store as much and
// promise nothing: as many in flight, as many bytes.
func (s *scale) parking(ctx context.Context) error {
	return onServers(ctx, func(_ *servers.Pair, site *site) error {
		var ours, bare []float64
		for round := range parkRounds {
			for _, turn := range inTurns([]bool{true, false}, round) {
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
			say("park %d of %d: ours %.0f/s, bare %.0f/s", round+1, parkRounds, ours[round], bare[round])
		}
		s.figures["park_over_bare"] = ratio(ours, bare)
		return nil
	})
}

func parkOurs(ctx context.Context, site *site, round int) (float64, error) {
	body := make([]byte, bodyBytes)
	began := time.Now()
	err := each(parkNumber, parkPipes*parkPipe, func(i int) error {
		m := message.Message{ID: longID(round, i), RoutingKey: routingKey, Body: body}
		_, err := site.producer.Publish(ctx, m, message.After(parkedAhead+time.Duration(i)*time.Millisecond))
		return err
	})
	return parkNumber / time.Since(began).Seconds(), err
}

func parkBare(ctx context.Context, site *site, round int) (float64, error) {
	m := message.Message{RoutingKey: routingKey, Body: make([]byte, bodyBytes)}
	envelope := message.AppendEnvelope(make([]byte, 12), &m, "") // with two instants, as stored
	due := time.Now().Add(parkedAhead).UnixMilli()
	ids, envelopes := fmt.Sprint("bare:ids:", round), fmt.Sprint("bare:envelopes:", round)
	began := time.Now()
	err := each(parkNumber/parkPipe, parkPipes, func(pipe int) error {
		_, err := site.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := pipe * parkPipe; i < (pipe+1)*parkPipe; i++ {
				id := longID(round, i)
				p.ZAdd(ctx, ids, redis.Z{Score: float64(due + int64(i)), Member: id})
				p.HSet(ctx, envelopes, id, envelope)
			}
			return nil
		})
		return err
	})
	return parkNumber / parkPipe * parkPipe / time.Since(began).Seconds(), err
}

// longID is as long as a ULID.
func longID(load, i int) string { return fmt.Sprintf("%08d-%017d", load, i) }
