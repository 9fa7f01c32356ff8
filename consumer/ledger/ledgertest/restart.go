package ledgertest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// RunServerKilled has messages handled while their ledger's server is killed and
// comes back, again and again. Whatever a call says when the connection is lost, its
// message is delivered again until it is acknowledged. restart kills the server with
// signal 9, starts it on its data and returns when it answers.
func (suite Suite) RunServerKilled(t *testing.T, s Subject, restart func(context.Context) error) {
	t.Helper()
	const handlers, kills, between = 20, 3, 200
	var acknowledged, failed atomic.Int64
	var handling sync.WaitGroup
	keys := make(chan string)
	for range handlers {
		handling.Go(func() {
			for key := range keys {
				for {
					_, err := untilDecided(t.Context(), s, key, func(ctx context.Context) error { return s.Effect(ctx, key) })
					if err == nil {
						break
					}
					failed.Add(1)
					select {
					case <-t.Context().Done():
						return
					case <-time.After(10 * time.Millisecond): // as long as the server does not answer
					}
				}
				acknowledged.Add(1)
			}
		})
	}
	key := func(i int) string { return fmt.Sprintf("m-%d", i) }
	messages := 0
	for range kills {
		up := make(chan error, 1)
		for i := range 2 * between {
			if i == between {
				go func() { up <- restart(t.Context()) }()
			}
			select {
			case keys <- key(messages):
			case err := <-up:
				if err != nil { // no process will take anything any more
					close(keys)
					t.Fatal(err)
				}
				up <- nil
				keys <- key(messages)
			}
			messages++
		}
		if err := <-up; err != nil {
			close(keys)
			t.Fatal(err)
		}
	}
	close(keys)
	handling.Wait()
	twice := 0
	for i := range messages {
		switch n, err := s.Effects(t.Context(), key(i)); {
		case err != nil || n == 0:
			t.Errorf("%s has had %d effects, %v", key(i), n, err)
		case n > 1:
			twice++
		}
	}
	t.Logf("%d messages, %d calls failed, %d effects were repeated", acknowledged.Load(), failed.Load(), twice)
	if failed.Load() == 0 {
		t.Error("the server was never missed: nothing was tested")
	}
	most := 0
	if !suite.Together { // what was being handled
		most = kills * handlers
	}
	if twice > most {
		t.Errorf("that is more than %d", most)
	}
}
