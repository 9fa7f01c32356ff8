package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delaybridge/delaybridge/consumer/ledger"
)

// another has the effect of one key go on while that of another happens.
func (t test) another() {
	if t.suite.OneWriter {
		return
	}
	s, other := t.open(), t.open()
	began, finish := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := s.Ledger.Once(t.Context(), "m-1", func(ctx context.Context) error {
			close(began)
			<-finish
			return s.Effect(ctx, "m-1")
		})
		done <- err
	}()
	<-began
	t.wantOnce(other, "m-2", true)
	close(finish)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// crowd has 200 consumers, over two handles, handle 1,000 messages, each of which is
// delivered twice, at about the same time. Some effects fail, and their messages
// come again until they do not.
func (t test) crowd() {
	const consumers, messages = 200, 1000
	handles := [...]Subject{t.open(), t.open()}
	deliveries := make(chan string, 2*messages)
	for i := range 2 * messages {
		deliveries <- fmt.Sprintf("m-%d", i/2)
	}
	close(deliveries)
	var firsts, duplicates atomic.Int64
	var crowd sync.WaitGroup
	for c := range consumers {
		s := handles[c%len(handles)]
		crowd.Go(func() {
			for key := range deliveries {
				first, err := t.handle(s, key)
				switch {
				case err != nil:
					t.Errorf("%s: %v", key, err)
				case first:
					firsts.Add(1)
				default:
					duplicates.Add(1)
				}
			}
		})
	}
	crowd.Wait()
	if firsts.Load() != messages || duplicates.Load() != messages {
		t.Errorf("%d were the first and %d duplicates, want %d of each", firsts.Load(), duplicates.Load(), messages)
	}
	for i := range messages {
		t.wantEffects(handles[0], fmt.Sprintf("m-%d", i), 1)
	}
}

var errAgain = errors.New("this attempt fails")

// handle handles one delivery until it is acknowledged.
func (t test) handle(s Subject, key string) (bool, error) {
	for {
		fails := rand.IntN(5) == 0 //nolint:gosec // shuffles, no secret
		first, err := untilDecided(t.Context(), s, key, func(ctx context.Context) error {
			if fails && !t.suite.Together {
				return errAgain
			}
			if err := s.Effect(ctx, key); err != nil || !fails {
				return err
			}
			return errAgain
		})
		if !errors.Is(err, errAgain) {
			return first, err
		}
	}
}

// untilDecided calls Once until it is not busy.
func untilDecided(ctx context.Context, s Subject, key string, effect func(context.Context) error) (bool, error) {
	for {
		first, err := s.Ledger.Once(ctx, key, effect)
		if !errors.Is(err, ledger.ErrBusy) {
			return first, err
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(time.Millisecond): // who is at it needs the processor, too
		}
	}
}

// wantOnce calls Once with an effect that succeeds.
func (t test) wantOnce(s Subject, key string, want bool) {
	t.Helper()
	called := false
	first, err := s.Ledger.Once(t.Context(), key, func(ctx context.Context) error {
		called = true
		return s.Effect(ctx, key)
	})
	if err != nil || first != want || called != want {
		t.Errorf("%.20q: got %v, %v, effect called: %v; want %v", key, first, err, called, want)
	}
}

func (t test) effect(ctx context.Context, s Subject, key string) {
	t.Helper()
	if err := s.Effect(ctx, key); err != nil {
		t.Error(err)
	}
}

func (t test) wantEffects(s Subject, key string, want int) {
	t.Helper()
	if got, err := s.Effects(t.Context(), key); err != nil || got != want {
		t.Errorf("%.20q has had %d effects, %v, want %d", key, got, err, want)
	}
}
