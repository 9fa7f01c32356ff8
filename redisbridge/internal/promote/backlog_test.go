package promote

import (
	"strconv"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/broker"
)

func TestPace(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_700_000_000, 0)
	const due = 1_700_000_000_000
	slack := paceSlack.Milliseconds()
	p := newBacklog("us")
	if !isAhead(p, 0, due, start) {
		t.Error("a backlog begins without waiting for others")
	}
	start = start.Add(paceGather)
	if isAhead(p, 0, due+60_000, start) {
		t.Error("a shard alone is ahead of nobody")
	}
	p.ahead("1", due, start)
	for _, tc := range []struct {
		at   int64
		want bool
	}{{due + slack, false}, {due + slack + 1, true}} {
		if got := isAhead(p, 0, tc.at, start); got != tc.want {
			t.Errorf("shard 0 at +%d ms, shard 1 at 0: ahead %v, want %v", tc.at-due, got, tc.want)
		}
	}
	if isAhead(p, 0, due+60_000, start.Add(paceStale+time.Millisecond)) {
		t.Error("a shard that is not heard of any more holds nobody up")
	}
	p.ahead("1", due, start)
	p.done("1")
	if isAhead(p, 0, due+60_000, start) {
		t.Error("a shard that is done holds nobody up")
	}
}

func TestPaceAcrossBridges(t *testing.T) {
	t.Parallel()
	p := newBacklog("us")
	const due = 1_700_000_000_000
	for _, text := range []string{"ahead them 1", "behind us 1", "behind them", "behind them x"} {
		if p.hear(text); len(p.others) > 0 {
			t.Errorf("%q: want it ignored", text)
		}
	}
	p.ahead("0", due, time.Now().Add(-paceGather))
	p.hear("behind them 1700000000000")
	if !isAhead(p, 0, due+paceSlack.Milliseconds()+1, time.Now()) {
		t.Error("another bridge's earlier message is not waited for")
	}
	p.hear("behind them 1700000001000")
	if isAhead(p, 0, due+3000, time.Now()) || !isAhead(p, 0, due+3001, time.Now()) {
		t.Error("a bridge that has come 1 s farther lets us be 2 s ahead, and no more")
	}
}

func TestWindow(t *testing.T) {
	t.Parallel()
	s := &shard{entered: make(chan struct{}, 1), unanswered: broker.NewUnanswered()}
	s.awaitRoom(t.Context(), time.Now().Add(time.Hour)) // there is room
	s.entering.Store(window)
	began := time.Now()
	s.awaitRoom(t.Context(), began.Add(20*time.Millisecond))
	if waited := time.Since(began); waited < 20*time.Millisecond {
		t.Errorf("a full window held the next message up for %v, want all the patience there is", waited)
	}
	time.AfterFunc(time.Millisecond, func() {
		s.entering.Add(-1)
		signal(s.entered)
	})
	s.awaitRoom(t.Context(), time.Now().Add(time.Hour)) // ends with the confirm
}

func TestCatchUpStep(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	var c catchUp
	for _, tc := range []struct {
		what string
		held bool
		gone time.Duration
		want time.Duration
	}{
		{"at first", false, 0, catchUpSpeed * tick},
		{"after a pause", false, time.Hour, catchUpSpeed * tick},
		{"on the way", true, 50 * time.Millisecond, catchUpSpeed * 50 * time.Millisecond},
		{"after a pause on the way", true, time.Hour, catchUpSpeed * time.Second},
	} {
		now, c.held = now.Add(tc.gone), tc.held
		if got := c.step(now); got != tc.want {
			t.Errorf("%s: a step of %v, want %v", tc.what, got, tc.want)
		}
	}
}

func isAhead(p *backlog, shard int, due int64, now time.Time) bool {
	ahead, _ := p.ahead(strconv.Itoa(shard), due, now)
	return ahead
}
