package redisbridge

import (
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_700_000_000, 0)
	const due = 1_700_000_000_000
	slack := paceSlack.Milliseconds()
	p := newPace("us")
	if p.ahead(0, due+60_000, 0, start) {
		t.Error("a shard alone is ahead of nobody")
	}
	p.ahead(1, due, 0, start)
	for _, tc := range []struct {
		at   int64
		want bool
	}{{due + slack, false}, {due + slack + 1, true}} {
		if got := p.ahead(0, tc.at, 0, start); got != tc.want {
			t.Errorf("shard 0 at +%d ms, shard 1 at 0: ahead %v, want %v", tc.at-due, got, tc.want)
		}
	}
	p.ahead(1, due, 2000, start)
	if p.ahead(0, due+2000, 0, start) {
		t.Error("a shard that takes steps of 2 s lets the others be 2 s ahead")
	}
	if p.ahead(0, due+60_000, 0, start.Add(paceStale+time.Millisecond)) {
		t.Error("a shard that is not heard of any more holds nobody up")
	}
	p.ahead(1, due, 0, start)
	p.done(1)
	if p.ahead(0, due+60_000, 0, start) {
		t.Error("a shard that is done holds nobody up")
	}
}

func TestPaceAcrossBridges(t *testing.T) {
	t.Parallel()
	p := newPace("us")
	const due = 1_700_000_000_000
	if p.hear("3") || p.hear("bridges") {
		t.Error("other words of the wake channel were taken for positions")
	}
	for _, text := range []string{"behind us 1", "behind them", "behind them x"} {
		if !p.hear(text) || len(p.others) > 0 {
			t.Errorf("%q: want it taken and ignored", text)
		}
	}
	p.hear("behind them 1700000000000")
	if !p.ahead(0, due+paceSlack.Milliseconds()+1, 0, time.Now()) {
		t.Error("another bridge's earlier message is not waited for")
	}
	p.hear("behind them 1700000001000")
	if p.ahead(0, due+3000, 0, time.Now()) || !p.ahead(0, due+3001, 0, time.Now()) {
		t.Error("a bridge that has come 1 s farther lets us be 2 s ahead, and no more")
	}
}
