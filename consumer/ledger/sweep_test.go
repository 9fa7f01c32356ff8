package ledger_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delaybridge/delaybridge/consumer/ledger"
)

// forgetter notes when it was asked to forget what.
type forgetter struct {
	ages []time.Duration
	at   []time.Time
}

func (f *forgetter) Forget(_ context.Context, before time.Time) (int64, error) {
	f.ages, f.at = append(f.ages, time.Since(before)), append(f.at, time.Now())
	return 1, errors.New("not this time")
}

func TestSweep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f forgetter
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Minute)
		defer cancel()
		ledger.Sweep(ctx, &f, 48*time.Hour, time.Hour, nil)
		if len(f.at) != 3 {
			t.Fatalf("swept at %v, want at once and after each of two hours", f.at)
		}
		for i, age := range f.ages {
			if age != 48*time.Hour || f.at[i].Sub(began) != time.Duration(i)*time.Hour {
				t.Errorf("after %v it was to forget what is older than %v", f.at[i].Sub(began), age)
			}
		}
	})
}
