package lab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/delaybridge/delaybridge/bench/internal/figures"
)

// The load. A flood has to be long enough for its middle to count more than its
// ends; the tier's TTL has to outlast the publishing of what is measured.
const (
	FloodSize  = 30_000 // messages
	Publishers = 512    // publish at once in a flood
	BodyBytes  = 256
	Patience   = 2 * time.Minute // until a load must have come out

	paceRate    = 1_000 // per second
	paceFor     = 6 * time.Second
	floodDelay  = 5 * time.Second        // a tier
	floodOffset = 300 * time.Millisecond // makes it no tier
	paceDelay   = time.Second            // a tier
	paceSpread  = 5 * time.Second        // arbitrary delays lie between paceDelay and this
)

// ParkedAhead is how far ahead messages are due that are only parked, and never come out.
const ParkedAhead = 30 * 24 * time.Hour

// Result is what was measured of a path, a value per round.
type Result struct {
	Published, Delivered []float64 // messages per second in a flood
	P50, P99             []float64 // lateness at paceRate, ms
	Worst                float64   // lateness at paceRate, ms
	Early, Again         int       // messages that came out before they were due, or once more
}

// Flood publishes as fast as the path takes it. The delivery rate is that of
// the whole: from the first publish to the last delivery, less the delay.
func (s *Site) Flood(ctx context.Context, p Path, r *Result) (string, error) {
	delay := p.Delay(floodDelay, floodOffset)
	a := s.Begin(p.Name()+"-flood", FloodSize)
	due := make([]time.Time, FloodSize)
	body := make([]byte, BodyBytes)
	began := time.Now()
	if err := Each(FloodSize, Publishers, func(i int) (err error) {
		due[i], err = p.Publish(ctx, a.ID(i), body, delay)
		return err
	}); err != nil {
		return "", err
	}
	published := time.Since(began)
	if err := s.Await(ctx, a, Patience); err != nil {
		return "", err
	}
	last := began
	for i, at := range a.At {
		if at.After(last) {
			last = at
		}
		if at.Before(due[i].Truncate(time.Millisecond)) {
			r.Early++
		}
	}
	r.Again += a.Again
	in, out := FloodSize/published.Seconds(), FloodSize/(last.Sub(began)-delay).Seconds()
	r.Published, r.Delivered = append(r.Published, in), append(r.Delivered, out)
	return fmt.Sprintf("%5.0f/s published, %5.0f/s delivered", in, out), nil
}

// Pace publishes at a steady rate and looks at lateness.
func (s *Site) Pace(ctx context.Context, p Path, r *Result) (string, error) {
	return s.PaceAt(ctx, p, paceRate, paceFor, r)
}

// PaceAt publishes n messages a second, for as long as lasting. It returns what r has got by it, in words.
func (s *Site) PaceAt(ctx context.Context, p Path, rate int, lasting time.Duration, r *Result) (string, error) {
	n := int(lasting.Seconds() * float64(rate))
	a := s.Begin(p.Name()+"-pace", n)
	due := make([]time.Time, n)
	body := make([]byte, BodyBytes)
	var hands errgroup.Group
	began := time.Now()
	for i := range n {
		if ahead := time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(rate))); ahead > 0 {
			time.Sleep(ahead)
		}
		delay := p.Delay(paceDelay, rand.N(paceSpread-paceDelay)).Truncate(time.Millisecond)
		if delay > paceDelay && delay%time.Second == 0 {
			delay += time.Millisecond // or it would be a tier
		}
		hands.Go(func() (err error) {
			due[i], err = p.Publish(ctx, a.ID(i), body, delay)
			return err
		})
	}
	if err := hands.Wait(); err != nil {
		return "", err
	}
	if err := s.Await(ctx, a, Patience); err != nil {
		return "", err
	}
	late := make([]float64, n)
	for i, at := range a.At {
		late[i] = float64(at.Sub(due[i]).Microseconds()) / 1000
		if at.Before(due[i].Truncate(time.Millisecond)) {
			r.Early++
		}
	}
	r.Again += a.Again
	p50, p99, worst := figures.Quantile(late, 0.50), figures.Quantile(late, 0.99), figures.Quantile(late, 1)
	r.P50, r.P99, r.Worst = append(r.P50, p50), append(r.P99, p99), max(r.Worst, worst)
	return fmt.Sprintf("late p50 %.1f ms, p99 %.1f ms, max %.1f ms", p50, p99, worst), nil
}

// Each calls do for 0 to n-1, in this order, from as many goroutines as given. It ends with
// the first error.
func Each(n, hands int, do func(i int) error) error {
	var next atomic.Int64
	var group errgroup.Group
	for range hands {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := do(i); err != nil {
					next.Store(int64(n)) // the others need not go on
					return err
				}
			}
		})
	}
	return group.Wait()
}

// LongID returns an ID that is as long as a ULID.
func LongID(load, i int) string { return fmt.Sprintf("%08d-%017d", load, i) }
