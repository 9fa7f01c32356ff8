package scale

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/bench/internal/lab"
	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/message"
)

// allocs counts what a publish into a tier allocates, and takes off what the
// client library allocates for the same message and its confirm.
func (s *suite) allocs(ctx context.Context) error {
	return onServers(ctx, func(_ *servers.Pair, site *site) error {
		tier, ok := site.Topology.Tier(time.Hour)
		if !ok {
			return errors.New("there is no tier of an hour")
		}
		ch, err := site.Conn.Channel()
		if err != nil {
			return err
		}
		if err := ch.Confirm(false); err != nil {
			return err
		}
		m := message.Message{ID: lab.LongID(0, 0), RoutingKey: lab.RoutingKey, Body: make([]byte, lab.BodyBytes)}
		now := time.Now()
		p := m.Publishing(message.Journey{Published: now, Due: now.Add(tier.TTL), Path: message.Path("tier 1h")})
		p.Headers["x-delay"] = tier.TTL.Milliseconds()
		library, err := allocsOf(func() error {
			confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, tier.Name, m.RoutingKey, true, false, p)
			if err != nil {
				return err
			}
			if ok, err := confirm.WaitContext(ctx); err != nil || !ok {
				return errors.Join(errors.New("not confirmed"), err)
			}
			return nil
		})
		if err != nil {
			return err
		}
		ours, err := allocsOf(func() error {
			_, err := site.Untracked.Publish(ctx, m, message.After(tier.TTL))
			return err
		})
		lab.Say("allocs: ours %d, library %d", ours, library)
		s.figures["allocs_publish"] = float64(ours - library)
		return err
	})
}

// allocsOf returns the allocations of one call among many at once.
func allocsOf(publish func() error) (int64, error) {
	if err := publish(); err != nil { // connects before it counts
		return 0, err
	}
	var failed error
	r := testing.Benchmark(func(b *testing.B) {
		b.Helper()
		b.ReportAllocs()
		failed = lab.Each(b.N, lab.Publishers, func(int) error { return publish() })
	})
	if failed != nil {
		return 0, fmt.Errorf("publish: %w", failed)
	}
	return r.AllocsPerOp(), nil
}
