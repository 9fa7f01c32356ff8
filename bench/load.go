package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
)

// result is what was measured of a path, a value per round.
type result struct {
	published, delivered []float64 // messages per second in a flood
	p50, p99             []float64 // lateness at paceRate, ms
	worst                float64   // lateness at paceRate, ms
	early, again         int
}

// flood publishes as fast as the path takes it. The delivery rate is that of
// the whole: from the first publish to the last delivery, less the delay.
func (s *site) flood(ctx context.Context, p path, r *result) (string, error) {
	delay := p.delay(floodDelay, floodOffset)
	a := s.begin(p.name()+"-flood", flood)
	due := make([]time.Time, flood)
	body := make([]byte, bodyBytes)
	began := time.Now()
	if err := each(flood, publishers, func(i int) (err error) {
		due[i], err = p.publish(ctx, a.id(i), body, delay)
		return err
	}); err != nil {
		return "", err
	}
	published := time.Since(began)
	if err := s.await(ctx, a, patience); err != nil {
		return "", err
	}
	last := began
	for i, at := range a.at {
		if at.After(last) {
			last = at
		}
		if at.Before(due[i].Truncate(time.Millisecond)) {
			r.early++
		}
	}
	r.again += a.again
	in, out := flood/published.Seconds(), flood/(last.Sub(began)-delay).Seconds()
	r.published, r.delivered = append(r.published, in), append(r.delivered, out)
	return fmt.Sprintf("%5.0f/s published, %5.0f/s delivered", in, out), nil
}

// pace publishes at a steady rate and looks at lateness.
func (s *site) pace(ctx context.Context, p path, r *result) (string, error) {
	return s.paceAt(ctx, p, paceRate, paceFor, r)
}

func (s *site) paceAt(ctx context.Context, p path, rate int, lasting time.Duration, r *result) (string, error) {
	n := int(lasting.Seconds() * float64(rate))
	a := s.begin(p.name()+"-pace", n)
	due := make([]time.Time, n)
	body := make([]byte, bodyBytes)
	var hands errgroup.Group
	began := time.Now()
	for i := range n {
		if ahead := time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(rate))); ahead > 0 {
			time.Sleep(ahead)
		}
		delay := p.delay(paceDelay, rand.N(paceSpread-paceDelay)).Truncate(time.Millisecond)
		if delay > paceDelay && delay%time.Second == 0 {
			delay += time.Millisecond // or it would be a tier
		}
		hands.Go(func() (err error) {
			due[i], err = p.publish(ctx, a.id(i), body, delay)
			return err
		})
	}
	if err := hands.Wait(); err != nil {
		return "", err
	}
	if err := s.await(ctx, a, patience); err != nil {
		return "", err
	}
	late := make([]float64, n)
	for i, at := range a.at {
		late[i] = float64(at.Sub(due[i]).Microseconds()) / 1000
		if at.Before(due[i].Truncate(time.Millisecond)) {
			r.early++
		}
	}
	r.again += a.again
	p50, p99, worst := quantile(late, 0.50), quantile(late, 0.99), quantile(late, 1)
	r.p50, r.p99, r.worst = append(r.p50, p50), append(r.p99, p99), max(r.worst, worst)
	return fmt.Sprintf("late p50 %.1f ms, p99 %.1f ms, max %.1f ms", p50, p99, worst), nil
}
