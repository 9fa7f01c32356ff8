// Package ledgertest is the conformance suite for ledgers: run it from the tests of
// each.
package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/consumer/ledger"
)

// Subject is a ledger under test, and what counts the effects.
type Subject struct {
	Ledger ledger.Ledger
	// Effect adds one to the effects of key, within the transaction of its context if
	// the ledger has put one there.
	Effect func(ctx context.Context, key string) error
	// Effects counts the effects of key that last.
	Effects func(ctx context.Context, key string) (int, error)
}

// Suite says what is tested.
type Suite struct {
	// Fresh gives a test an empty ledger: each call of what it returns opens another
	// handle on that same ledger, as another process would. It cleans up with
	// t.Cleanup.
	Fresh func(t testing.TB) func() Subject
	// Together says that effect and mark are committed together: an effect that failed
	// has left nothing.
	Together bool
	// OneWriter says that an effect keeps all others waiting, whatever their keys.
	OneWriter bool
}

// Run runs the suite.
func Run(t *testing.T, s Suite) {
	t.Helper()
	for name, run := range map[string]func(test){
		"the first has its effect, a duplicate has none": test.once,
		"an effect that fails leaves no mark":            test.failing,
		"an effect that panics leaves no mark":           test.panicking,
		"an effect whose context ends leaves no mark":    test.ended,
		"keys are any bytes":                             test.keys,
		"keys that cannot be":                            test.badKeys,
		"nobody else is at it meanwhile":                 test.alone,
		"another key does not wait":                      test.another,
		"marks are forgotten":                            test.forgetting,
		"200 consumers, the same 1,000 messages twice":   test.crowd,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(test{t, s.Fresh(t), s})
		})
	}
}

// test is one test of the suite and its ledger.
type test struct {
	*testing.T
	open  func() Subject
	suite Suite
}

func (t test) once() {
	s := t.open()
	t.wantOnce(s, "m-1", true)
	for range 2 {
		t.wantOnce(s, "m-1", false)
		t.wantOnce(t.open(), "m-1", false)
	}
	t.wantOnce(t.open(), "m-2", true)
	t.wantEffects(s, "m-1", 1)
	t.wantEffects(s, "m-2", 1)
}

func (t test) failing() {
	s := t.open()
	broken := errors.New("the mail server is down")
	for range 2 {
		first, err := s.Ledger.Once(t.Context(), "m-1", func(ctx context.Context) error {
			if t.suite.Together {
				t.effect(ctx, s, "m-1")
			}
			return broken
		})
		if first || err != broken { //nolint:errorlint // as it is
			t.Errorf("got %v, %v, want false and the effect's own error", first, err)
		}
	}
	t.wantEffects(s, "m-1", 0)
	t.wantOnce(t.open(), "m-1", true)
	t.wantEffects(s, "m-1", 1)
}

func (t test) panicking() {
	s := t.open()
	func() {
		defer func() {
			if got := recover(); got != "out of paper" {
				t.Errorf("recovered %v, want the effect's panic", got)
			}
		}()
		_, _ = s.Ledger.Once(t.Context(), "m-1", func(ctx context.Context) error {
			if t.suite.Together {
				t.effect(ctx, s, "m-1")
			}
			panic("out of paper")
		})
	}()
	t.wantEffects(s, "m-1", 0)
	t.wantOnce(t.open(), "m-1", true)
}

func (t test) ended() {
	s := t.open()
	ctx, end := context.WithCancel(t.Context())
	_, err := s.Ledger.Once(ctx, "m-1", func(ctx context.Context) error {
		if t.suite.Together {
			t.effect(ctx, s, "m-1")
		}
		end()
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the end of the context", err)
	}
	t.wantEffects(s, "m-1", 0)
	t.wantOnce(t.open(), "m-1", true)
	t.wantEffects(s, "m-1", 1)
}

func (t test) keys() {
	s := t.open()
	all := []string{
		"m", "M", "m ", " m", "m\x00", "m\xff", "é", "e\u0301", "{m}", "m'", `m"`, "m%", "m_", "0", "00",
		"/\x03a/bc", "/\x80a/bc", "/\xffa/bc", // what package consumer makes of queue names with a slash
		strings.Repeat("k", ledger.MaxKeyBytes), strings.Repeat("k", ledger.MaxKeyBytes-1) + "l",
	}
	for _, key := range all {
		t.wantOnce(s, key, true)
	}
	for _, key := range all {
		t.wantOnce(s, key, false)
		t.wantEffects(s, key, 1)
	}
}

func (t test) badKeys() {
	s := t.open()
	for _, key := range []string{"", strings.Repeat("k", ledger.MaxKeyBytes+1)} {
		first, err := s.Ledger.Once(t.Context(), key, func(context.Context) error {
			t.Errorf("the effect of a key of %d bytes was called", len(key))
			return nil
		})
		if first || err == nil || !strings.Contains(err.Error(), "key") {
			t.Errorf("key of %d bytes: got %v, %v, want an error that says so", len(key), first, err)
		}
	}
}

// alone has a duplicate come while the first is at work.
func (t test) alone() {
	s, other := t.open(), t.open()
	began, finish := make(chan struct{}), make(chan struct{})
	firsts := make(chan error, 1)
	go func() {
		first, err := s.Ledger.Once(t.Context(), "m-1", func(ctx context.Context) error {
			close(began)
			<-finish
			return s.Effect(ctx, "m-1")
		})
		if err == nil && !first {
			err = errors.New("the first was told that it is a duplicate")
		}
		firsts <- err
	}()
	<-began
	seconds := make(chan error, 1)
	asked := make(chan struct{})
	go func() {
		close(asked)
		first, err := untilDecided(t.Context(), other, "m-1", func(context.Context) error {
			return errors.New("the effect was called twice")
		})
		if err == nil && first {
			err = errors.New("the second was told that it is the first")
		}
		seconds <- err
	}()
	<-asked
	select {
	case err := <-seconds:
		t.Errorf("the second did not wait: %v", err)
		seconds <- err
	case <-time.After(100 * time.Millisecond): // enough for a ledger that does not wait to say so
	}
	close(finish)
	if err := errors.Join(<-firsts, <-seconds); err != nil {
		t.Error(err)
	}
	t.wantEffects(s, "m-1", 1)
}

// forgetting has a mark forgotten that is old enough, and no other.
func (t test) forgetting() {
	s := t.open()
	forgetter, ok := s.Ledger.(ledger.Forgetter)
	if !ok {
		return // marks that expire by themselves are that ledger's own test
	}
	forget := func(before time.Time, want int64) {
		t.Helper()
		if n, err := forgetter.Forget(t.Context(), before); err != nil || n != want {
			t.Errorf("forgot %d, %v, want %d", n, err, want)
		}
	}
	for i := range 3 {
		t.wantOnce(s, fmt.Sprintf("m-%d", i), true)
	}
	forget(time.Now().Add(-time.Hour), 0)
	t.wantOnce(s, "m-1", false)
	forget(time.Now().Add(time.Hour), 3)
	t.wantOnce(s, "m-1", true)
	forget(time.Now().Add(time.Hour), 1)
}
