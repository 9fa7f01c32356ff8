package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/server"
)

// Messages that are parked at the same time share a batch, up to its limits; one
// that is called back is not among them.
func TestBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		hold := make(chan struct{})
		batches := store.NewBatches(func(n int) {
			sizes = append(sizes, n) // by one goroutine: too few wait for a second one
			if len(sizes) == 1 {
				<-hold
			}
		})
		park := func(ctx context.Context, bytes int) *error {
			var err error
			go func() { err = batches.Park(ctx, bytes) }()
			synctest.Wait() // it waits to be sent, or for its answer
			return &err
		}
		park(t.Context(), 10) // goes at once, alone
		ctx, cancel := context.WithCancel(t.Context())
		impatient := park(ctx, 10)
		cancel()
		for range 10 {
			park(t.Context(), store.BatchBytes/4)
		}
		close(hold)
		synctest.Wait()
		if !errors.Is(*impatient, context.Canceled) || errors.Is(*impatient, server.ErrUnconfirmed) {
			t.Errorf("called back before it was sent: got %v, want context.Canceled and nothing unknown", *impatient)
		}
		if got, want := fmt.Sprint(sizes), "[1 4 4 2]"; got != want {
			t.Errorf("batches of %s messages, want %s", got, want)
		}
	})
}

func TestParkIsUnconfirmedOnceSent(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	sent := make(chan struct{})
	batches := store.NewBatches(func(int) {
		close(sent)
		<-hold
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-sent
		cancel()
	}()
	if err := batches.Park(ctx, 10); !errors.Is(err, server.ErrUnconfirmed) || !errors.Is(err, context.Canceled) {
		t.Errorf("gave up waiting for the answer: got %v, want ErrUnconfirmed and context.Canceled", err)
	}
	close(hold)
}
