package main

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

func TestLedger(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		delays, out []time.Duration // out 0 is never
		want        outcome
	}{
		"on time and late": {
			[]time.Duration{10 * ms, 20 * ms, 30 * ms}, []time.Duration{10 * ms, 22 * ms, 110 * ms},
			outcome{delivered: 3, p50: 2, p99: 2, worst: 80, perSecond: 30},
		},
		"early": {
			[]time.Duration{110 * ms, 160 * ms}, []time.Duration{60 * ms, 160 * ms},
			outcome{delivered: 2, p50: -50, p99: -50, worst: 0, early: 1, earliest: 50, perSecond: 20},
		},
		"less than a millisecond early": {
			[]time.Duration{10*ms + ms/2, 60 * ms}, []time.Duration{10 * ms, 60 * ms},
			outcome{delivered: 2, p50: -0.5, p99: -0.5, worst: 0, perSecond: 40},
		},
		"one never": { // the ledger is read 200 ms after it was begun
			[]time.Duration{100 * ms, 100 * ms}, []time.Duration{100 * ms, 0},
			outcome{delivered: 1, p50: 0, p99: 0, worst: 100, perSecond: 10},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLedger(7, len(test.delays))
				stale := newLedger(6, 1).body(0, 0)
				for i, delay := range test.delays {
					body := l.body(i, delay)
					if at := test.out[i]; at != 0 {
						time.AfterFunc(at, func() { l.note(stale); l.note(body); l.note(body) })
					}
				}
				time.Sleep(200 * ms)
				got := l.read()
				test.want.messages, test.want.twice = len(test.delays), test.want.delivered
				got.perSecond = math.Round(got.perSecond)
				if got != test.want {
					t.Errorf("got  %+v\nwant %+v", got, test.want)
				}
			})
		})
	}
}
