package consumer_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/internal/defaults"
)

func TestPauseGrows(t *testing.T) {
	t.Parallel()
	const middle = 0.5 // neither longer nor shorter
	for name, c := range map[string]struct {
		retry  consumer.Retry
		random float64
		want   []time.Duration // after the first failure, and on
	}{
		"the default":  {consumer.Retry{}, middle, []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9}},
		"at its least": {consumer.Retry{}, 0, []time.Duration{500e6, 1e9, 2e9}},
		"at its most":  {consumer.Retry{}, 1, []time.Duration{1500e6, 3e9, 6e9}},
		"all settings": {consumer.Retry{Base: 100 * time.Millisecond, Factor: 3, Cap: 2 * time.Second, Jitter: 0.1}, 1, []time.Duration{110e6, 330e6, 990e6, 2e9, 2e9}},
		"no jitter":    {consumer.Retry{Jitter: -1}, 1, []time.Duration{1e9, 2e9, 4e9}},
		"no growth":    {consumer.Retry{Factor: 1, Jitter: -1}, 0, []time.Duration{1e9, 1e9, 1e9}},
		"a long base":  {consumer.Retry{Base: time.Hour}, middle, []time.Duration{time.Hour, time.Hour}},
	} {
		for i, want := range c.want {
			if got := c.retry.Pause(i+1, c.random); got.Round(time.Microsecond) != want {
				t.Errorf("%s: pause %d is %v, want %v", name, i+1, got, want)
			}
		}
	}
}

// What fails for as long as an outage may last is not given up.
func TestDefaultAttemptsSpanADay(t *testing.T) {
	t.Parallel()
	span := func(r consumer.Retry, attempts int, random float64) (total time.Duration) {
		for failed := 1; failed < attempts; failed++ {
			total += r.Pause(failed, random)
		}
		return total
	}
	if least := span(consumer.Retry{}, defaults.RetryAttempts, 0); least < 24*time.Hour {
		t.Errorf("with a Delayer the attempts span %v", least)
	}
	held := consumer.Retry{Cap: consumer.Retry{}.Held().Cap}
	if most := span(held, consumer.Retry{}.Held().Attempts, 1); most > 20*time.Minute {
		t.Errorf("without a Delayer a message is held for %v, and the broker's timeout is 30 minutes", most)
	}
}

func TestPauseStaysInItsBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := consumer.Retry{
			Base:   time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "base")),
			Factor: rapid.Float64Range(1, 1e9).Draw(t, "factor"),
			Jitter: rapid.Float64Range(0, 1).Draw(t, "jitter"),
		}
		r.Cap = r.Base + time.Duration(rapid.Int64Range(1, int64(365*24*time.Hour)).Draw(t, "more"))
		failed := rapid.IntRange(1, math.MaxInt32).Draw(t, "failed")
		if pause := r.Pause(failed, rapid.Float64Range(0, 1).Draw(t, "random")); pause < 0 || pause > max(r.Cap, time.Second) {
			t.Fatalf("pause %v of %+v", pause, r)
		}
		if r.Pause(failed, 0.3) > r.Pause(failed+1, 0.3) {
			t.Fatalf("the pause of %+v shrinks", r)
		}
	})
}
