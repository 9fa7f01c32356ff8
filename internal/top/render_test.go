package top_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/delaybridge/delaybridge/internal/top"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// busy is a world with traffic: 100 messages a second are parked in each shard, 80 leave
// it, and every hundredth delivery is late.
func busy(w *world) {
	left := int64(0)
	w.perLook = func(now time.Duration) {
		n := int(now.Seconds())
		for i := range w.redis.Stats.Shards {
			s := &w.redis.Stats.Shards[i]
			left = int64(80 * n)
			s.Parked = map[time.Duration]int{time.Minute: 600_000 + 20*n, time.Second: 12, 0: 3}
			s.Promoting, s.NextDue = 4*i, at(now+time.Duration(1+i)*120*time.Millisecond)
			s.Left, s.Deliveries = left, deliveries(now)
		}
		w.redis.Stats.Bridges[0].ClaimedPerSecond, w.redis.Stats.Bridges[0].SettledPerSecond = 160.2, 159.7
		w.redis.Stats.Bridges[0].PromotionLate = redisbridge.Percentiles{Messages: 900, P50: 9, P99: 23}
		w.redis.Stats.Bridges[0].ReadyLate = redisbridge.Percentiles{Messages: 40, P50: 2, P99: 6}
		w.broker.Counts.Tiers[30*time.Minute] = 48_310
		w.flows.Flows.Tiers[30*time.Minute] = top.Flow{In: 27.2, Change: -1.1, Messages: 48_310}
		w.broker.Counts.Lanes[time.Minute] = 9_612
		w.flows.Flows.Lanes[time.Minute] = top.Flow{In: 158.4, Change: 0.4, Messages: 9_612}
	}
}

func deliveries(now time.Duration) (list []redisbridge.Delivery) {
	for i := range 50 {
		late := time.Duration(1+i%5) * time.Millisecond
		if i == 7 {
			late = 1300 * time.Millisecond
		}
		path := message.Path("parked, then lane 1m")
		if i%2 == 0 {
			path = message.Path("tier 30m")
		}
		delivered := at(now - time.Duration(i)*time.Millisecond)
		list = append(list, redisbridge.Delivery{At: delivered, Due: delivered.Add(-late), Path: path})
	}
	return list
}

func trouble(w *world) {
	busy(w)
	calm, bridges := w.perLook, w.redis.Stats.Bridges
	w.perLook = func(now time.Duration) {
		w.redis.Stats.Bridges = bridges
		calm(now)
		w.redis.Stats.Bridges = nil
		w.redis.Stats.Shards[1].Owner, w.redis.Stats.Shards[1].Alive = "", false
		w.redis.Stats.Shards[0].Alive = false
		w.redis.Stats.Shards[0].OldestLate = at(-40 * time.Second)
		w.broker.Counts.Queues["orders.inbox"] = 1 + 250*int(now.Seconds())
		w.broker.Counts.Queues["orders.quarantine"] = 3
	}
}

// TestRender compares whole screens; UPDATE_GOLDEN=1 writes them anew.
func TestRender(t *testing.T) {
	t.Parallel()
	many := func(w *world) {
		w.redis.Stats.Shards = nil
		for n := range 32 {
			w.redis.Stats.Shards = append(w.redis.Stats.Shards, redisbridge.ShardStats{Shard: n, Name: strconv.Itoa(n), Owner: "alpha-ABCDEFGH", Alive: true})
		}
		w.redis.Stats.Bridges[0].Shards = []int{0, 1, 2, 5, 31}
		all := newTopology(w.t, topology.Config{Prefix: "orders", Shards: 32})
		w.book = top.NewBook(all, at(0))
		for _, q := range all.Queues() {
			w.broker.Counts.Queues[q.Name] = 0
		}
	}
	tests := []struct {
		name          string
		width, height int
		is            func(*world)
		screen        top.Screen
	}{
		{"idle", 80, 24, func(*world) {}, top.Screen{}},
		{"busy", 80, 24, busy, top.Screen{}},
		{"busy", 120, 40, busy, top.Screen{}},
		{"busy", 40, 10, busy, top.Screen{}},
		{"scrolled", 40, 10, busy, top.Screen{Offset: 9}},
		{"trouble", 80, 24, trouble, top.Screen{}},
		{"trouble", 120, 40, trouble, top.Screen{}},
		{"trouble", 40, 10, trouble, top.Screen{}},
		{"help", 80, 24, busy, top.Screen{Help: true}},
		{"paused", 80, 24, busy, top.Screen{Paused: true}},
		{"once", 0, 0, busy, top.Screen{Once: true}},
		{"shards", 80, 24, many, top.Screen{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			test.is(w)
			w.look(30 * time.Second)
			p := w.picture()
			test.screen.Width, test.screen.Height, test.screen.Interval = test.width, test.height, 2*time.Second
			text, _ := top.Render(&p, test.screen)
			golden(t, test.name, test.width, test.height, text)
		})
	}
}

func golden(t *testing.T, name string, width, height int, text string) {
	t.Helper()
	lines := strings.Split(ansi.Strip(text), "\n")
	if height > 0 && len(lines) != height {
		t.Errorf("%d lines, want %d", len(lines), height)
	}
	for i, line := range lines {
		if width > 0 && ansi.StringWidth(line) > width {
			t.Errorf("line %d is wider than %d: %q", i+1, width, line)
		}
		lines[i] = strings.TrimRight(line, " ")
	}
	got := strings.Join(lines, "\n") + "\n"
	file := filepath.Join("testdata", name+".txt")
	if width > 0 {
		file = filepath.Join("testdata", fmt.Sprintf("%s-%dx%d.txt", name, width, height))
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the screen differs from %s:\n%s", file, got)
	}
}

// Before anything has answered there is nothing to show but that.
func TestRenderBeforeTheFirstAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.picture()
	text, _ := top.Render(&p, top.Screen{Width: 80, Height: 24})
	if plain := ansi.Strip(text); !strings.Contains(plain, "asking Redis and RabbitMQ") || strings.Contains(plain, "no problems") {
		t.Errorf("the screen is\n%s", plain)
	}
}

// What is old is grey, and what is new is not.
func TestOldPictureIsGrey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	busy(w)
	w.look(10 * time.Second)
	w.book.Take(top.Look{Of: top.Redis, Asked: at(9 * time.Second), At: at(12 * time.Second), Err: errors.New("connection refused")})
	w.now = 21 * time.Second
	p := w.picture()
	text, _ := top.Render(&p, top.Screen{Width: 80, Height: 40})
	const faint = "\x1b[2m"
	for line := range strings.SplitSeq(text, "\n") {
		plain := ansi.Strip(line)
		words := strings.Fields(plain)
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "parked", "next", "SHARD", "BRIDGE", "0", "1", "alpha-ABCDEFGH":
			if !strings.HasPrefix(line, faint) {
				t.Errorf("this is old and not grey: %q", line)
			}
		case "inbox", "TTL", "1m", "30m":
			if strings.HasPrefix(line, faint) {
				t.Errorf("this is new and grey: %q", line)
			}
		}
	}
	if !strings.Contains(ansi.Strip(text), "!! 12 s   Redis does not answer: connection refused") {
		t.Errorf("it does not say since when:\n%s", ansi.Strip(text))
	}
}

// Without the management API rates are not known, and that is not taken for a problem.
func TestRatesThatAreNotKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.flows.Err = errors.New("user is refused")
	w.look(10 * time.Second)
	p := w.picture()
	if len(p.Problems) > 0 || p.Rows[1].Tier.In.Known || p.NotTaken != nil {
		t.Errorf("problems %v, a rate %v, and not taken %v", p.Problems, p.Rows[1].Tier.In, p.NotTaken)
	}
	text, _ := top.Render(&p, top.Screen{Width: 80, Height: 40})
	for _, want := range []string{"rates are not known, as the management API does not answer: user is refused", "due, not taken –"} {
		if !strings.Contains(ansi.Strip(text), want) {
			t.Errorf("%q is missing from\n%s", want, ansi.Strip(text))
		}
	}
	w.flows.Err = top.ErrNoManagement
	w.look(10 * time.Second)
	p = w.picture()
	if text, _ = top.Render(&p, top.Screen{Width: 80, Height: 40}); !strings.Contains(ansi.Strip(text), "rates are not known, as management-url is empty") {
		t.Errorf("it does not say that there is no management API:\n%s", ansi.Strip(text))
	}
}
