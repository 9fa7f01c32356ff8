package scale

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/bench/internal/lab"
	"github.com/delaybridge/delaybridge/message"
)

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
		return lab.Each(n, promoteHands, func(i int) error {
			if i > 0 && i%1_000_000 == 0 {
				lab.Say("crowd: %d parked, %.0f/s", i, float64(i)/time.Since(began).Seconds())
			}
			return s.publishFar(ctx, lab.LongID(0, i), body, part(within, i, n))
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
		before, err := s.Client.ConfigGet(ctx, setting[0]).Result()
		if err != nil {
			return err
		}
		if err := s.Client.ConfigSet(ctx, setting[0], setting[1]).Err(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Client.ConfigSet(ctx, setting[0], before[setting[0]]).Err()) }()
	}
	return fill()
}

// rewriteAOF has Redis do at once what it would begin by itself some time after a
// filling, and waits for the end: meanwhile each page that changes is copied.
func (s *site) rewriteAOF(ctx context.Context) error {
	began := time.Now()
	if err := s.Client.BgRewriteAOF(ctx).Err(); err != nil && !strings.Contains(err.Error(), "in progress") {
		return err
	}
	for {
		running, err := s.info(ctx, "persistence", "aof_rewrite_in_progress")
		if err != nil {
			return err
		}
		if running == 0 {
			lab.Say("crowd: AOF rewritten in %.0f s", time.Since(began).Seconds())
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
	m := message.Message{ID: id, RoutingKey: lab.RoutingKey, Body: body}
	receipt, err := s.Producer.Publish(ctx, m, message.After(crowdFrom+offset+time.Millisecond))
	if err == nil && (receipt.Path != message.PathParked || receipt.Duplicate) {
		err = fmt.Errorf("message %s is not parked", id)
	}
	return err
}

// part returns i nths of d.
func part(d time.Duration, i, n int) time.Duration {
	return time.Duration(float64(d) * float64(i) / float64(n))
}
