// Package pause measures what it costs when every bridge stands still for a while: how late the
// messages come that were to be promoted meanwhile, how late all others, and how fast a backlog is
// drained afterwards. It has an installation of its own, with the default topology.
package pause

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/delaybridge/delaybridge/internal/sleep"
	"github.com/delaybridge/delaybridge/message"
)

// What a measurement of pauses publishes, per second.
const (
	arbitraryRate = 1000
	exactRate     = 200
)

// The first pause is shorter than the lane that the messages are meant for. All
// instants count from the first publish.
const (
	lane          = 30 * time.Second
	shortestDelay = lane + time.Second
	longestDelay  = 2*lane - time.Millisecond
	calm          = 2 * lane // from here on as many arrive as are published
	pauseAt       = calm + 5*time.Second
	pauseFor      = 20 * time.Second
	publishFor    = pauseAt + 2*pauseFor
)

// The outage is longer than the default lead, of a minute.
const (
	outageFor     = time.Minute + 15*time.Second
	outageLongest = 20 * time.Second // delays, so that most of it is overdue at the end
)

// Measure measures promise 6: what it costs when every bridge process
// stands still for a while, once for less than the lead and once for longer. It
// writes what it finds to out, and says whether nothing was lost or early. It takes some
// minutes.
func Measure(ctx context.Context, out, progress io.Writer) (good bool, err error) {
	fmt.Fprintln(progress, "pause: starting servers")
	m, err := newLab(ctx)
	defer func() { err = errors.Join(err, m.close(context.WithoutCancel(ctx))) }()
	if err != nil {
		return false, err
	}
	fmt.Fprintf(progress, "pause: %v of load, undisturbed\n", publishFor)
	undisturbed, err := m.measureWithinLead(ctx, "calm", func(ctx context.Context, d time.Duration) (from, to time.Time, err error) {
		from = time.Now()
		sleep.For(ctx, d)
		return from, time.Now(), nil
	})
	if err != nil {
		return false, err
	}
	fmt.Fprintf(progress, "pause: the same, and the bridges stand still for %v of it\n", pauseFor)
	within, err := m.measureWithinLead(ctx, "within", m.still)
	if err != nil {
		return false, err
	}
	fmt.Fprintf(progress, "pause: the bridges stand still for %v under load\n", outageFor)
	beyond, err := m.measureBeyondLead(ctx)
	if err != nil {
		return false, err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "messages due\tnumber\tp50 ms\tp99 ms\tmax ms\tlost\tearly\t")
	for _, row := range []struct {
		name string
		l    lateness
	}{
		{fmt.Sprintf("undisturbed, promoted within %v", pauseFor), undisturbed.hit}, {"all others meanwhile", undisturbed.others},
		{fmt.Sprintf("promoted late by a pause of %v", pauseFor), within.hit}, {"all others meanwhile", within.others},
		{fmt.Sprintf("around a pause of %v", outageFor), beyond.all},
	} {
		fmt.Fprintf(table, "%s\t%d\t%.1f\t%.1f\t%.1f\t%d\t%d\t\n", row.name, len(row.l.ms), row.l.at(0.5), row.l.at(0.99), row.l.at(1), row.l.lost, row.l.early)
	}
	if err := table.Flush(); err != nil {
		return false, err
	}
	ratio := within.hit.at(0.99) / undisturbed.hit.at(0.99)
	fmt.Fprintf(out, "pause_p99_over_undisturbed %.2f\n", ratio)
	fmt.Fprintf(out, "pause_others_p99_over_undisturbed %.2f\n", within.others.at(0.99)/undisturbed.others.at(0.99))
	fmt.Fprintf(out, "backlog after the long pause: %d messages, drained at %.0f/s (the bare broker takes %.0f/s); out of due order by p99 %.0f ms, at most %.0f ms\n",
		beyond.backlog, beyond.rate, beyond.bare, beyond.disorder.at(0.99), beyond.disorder.at(1))
	lost, early := 0, 0
	for _, l := range []lateness{undisturbed.hit, undisturbed.others, within.hit, within.others, beyond.all} {
		lost, early = lost+l.lost, early+l.early
	}
	fmt.Fprintf(out, "pause: lost=%d early=%d\n", lost, early)
	return lost == 0 && early == 0, nil
}

// still stops all bridges for a while.
func (m *lab) still(ctx context.Context, d time.Duration) (from, to time.Time, err error) {
	from = time.Now()
	for _, p := range m.processes {
		err = errors.Join(err, p.Stop())
	}
	sleep.For(ctx, d)
	to = time.Now()
	for _, p := range m.processes {
		err = errors.Join(err, p.Continue())
	}
	return from, to, err
}

// withinLead is the lateness of what was to be promoted during the pause, and of
// the others that were due around it: of exact tiers, and promoted before or after.
type withinLead struct{ hit, others lateness }

func (m *lab) measureWithinLead(
	ctx context.Context, name string, still func(context.Context, time.Duration) (from, to time.Time, err error),
) (r withinLead, err error) {
	var from, to time.Time
	var stopped error
	began := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		sleep.For(ctx, pauseAt)
		from, to, stopped = still(ctx, pauseFor)
	}()
	all, err := m.load(ctx, name, publishFor, shortestDelay, longestDelay)
	<-done
	if err := errors.Join(err, stopped); err != nil {
		return r, err
	}
	m.await(ctx, all)
	for _, s := range all {
		promoted := s.due.Add(-s.lane)
		switch {
		case s.due.Before(began.Add(calm)): // warming up
		case s.lane > 0 && promoted.After(from) && promoted.Before(to):
			r.hit.add(&s)
		default:
			r.others.add(&s)
		}
	}
	return r, ctx.Err()
}

type beyondLead struct {
	all, disorder lateness
	backlog       int
	rate, bare    float64
}

func (m *lab) measureBeyondLead(ctx context.Context) (r beyondLead, err error) {
	if r.bare, err = m.bareRate(ctx); err != nil {
		return r, err
	}
	var to time.Time
	var stopped error
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, to, stopped = m.still(ctx, outageFor)
	}()
	all, err := m.load(ctx, "beyond", outageFor, time.Second, outageLongest)
	<-done
	if err := errors.Join(err, stopped); err != nil {
		return r, err
	}
	m.await(ctx, all)
	var backlog []sent
	for _, s := range all {
		r.all.add(&s)
		if s.lane > 0 && s.due.Before(to) && s.arrived.After(to) {
			backlog = append(backlog, s)
		}
	}
	r.backlog = len(backlog)
	if r.backlog == 0 {
		return r, errors.New("pause: no message was overdue when the bridges went on")
	}
	slices.SortFunc(backlog, func(a, b sent) int { return a.arrived.Compare(b.arrived) })
	r.rate = float64(r.backlog) / backlog[r.backlog-1].arrived.Sub(to).Seconds()
	latest := backlog[0].due
	for _, s := range backlog {
		r.disorder.ms = append(r.disorder.ms, max(0, float64(latest.Sub(s.due).Microseconds())/1000))
		if s.due.After(latest) {
			latest = s.due
		}
	}
	return r, ctx.Err()
}

// bareRate publishes straight to the ready exchange, which is all that a bridge
// has to do with what is overdue, and returns how many come out per second.
func (m *lab) bareRate(ctx context.Context) (float64, error) {
	const n = 30_000
	began := time.Now()
	all := make([]sent, n)
	var hands sync.WaitGroup
	failed := make([]error, 256)
	var next atomic.Int64
	for hand := range failed {
		hands.Go(func() {
			for failed[hand] == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				all[i] = sent{id: fmt.Sprintf("bare-%d", i), due: began}
				_, failed[hand] = m.producer.Publish(ctx, message.Message{ID: all[i].id, RoutingKey: "k", Body: make([]byte, 256)}, message.After(0))
			}
		})
	}
	hands.Wait()
	if err := errors.Join(failed...); err != nil {
		return 0, err
	}
	m.await(ctx, all)
	last := slices.MaxFunc(all, func(a, b sent) int { return a.arrived.Compare(b.arrived) })
	return n / last.arrived.Sub(began).Seconds(), nil
}
