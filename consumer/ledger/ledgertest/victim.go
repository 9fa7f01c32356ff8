package ledgertest

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// victimVariable makes a test binary a process that is to be killed. It holds the
// address of the ledger's server.
const victimVariable = "DELAYBRIDGE_TEST_LEDGER_VICTIM"

// What a victim does until it is killed.
const (
	victimMessages = 1000
	victimHandlers = 8
)

// Victim handles messages until it is killed, where RunKilled has started this
// process for that; then it does not return. It is for TestMain, before anything
// else.
func Victim(open func(ctx context.Context, address string) (Subject, error)) {
	address := os.Getenv(victimVariable)
	if address == "" {
		return
	}
	ctx := context.Background()
	s, err := open(ctx, address)
	if err != nil {
		panic(err)
	}
	keys := make(chan string)
	var handlers sync.WaitGroup
	for range victimHandlers {
		handlers.Go(func() {
			for key := range keys {
				if _, err := untilDecided(ctx, s, key, func(ctx context.Context) error { return s.Effect(ctx, key) }); err != nil {
					panic(err)
				}
				fmt.Println(key)
			}
		})
	}
	for i := range victimMessages {
		keys <- victimKey(i)
	}
	close(keys)
	handlers.Wait()
	select {} // waits for its end
}

// RunKilled has other processes handle the same messages, one after the other, and
// kills each with signal 9 at a random instant; then all messages are delivered
// again. s is on the ledger at address, and what TestMain gives to Victim is, too.
func (suite Suite) RunKilled(t *testing.T, address string, s Subject) {
	t.Helper()
	const victims = 3
	for range victims {
		kill(t, address, rand.IntN(victimMessages)) //nolint:gosec // shuffles, no secret
	}
	var all sync.WaitGroup
	keys := make(chan string)
	for range victimHandlers {
		all.Go(func() {
			for key := range keys {
				if _, err := untilDecided(t.Context(), s, key, func(ctx context.Context) error { return s.Effect(ctx, key) }); err != nil {
					t.Errorf("%s: %v", key, err)
				}
			}
		})
	}
	for i := range victimMessages {
		keys <- victimKey(i)
	}
	close(keys)
	all.Wait()
	twice := 0
	for i := range victimMessages {
		switch n, err := s.Effects(t.Context(), victimKey(i)); {
		case err != nil || n == 0:
			t.Errorf("%s has had %d effects, %v", victimKey(i), n, err)
		case n > 1:
			twice++
		}
	}
	most := 0
	if !suite.Together { // what each was handling
		most = victims * victimHandlers
	}
	if t.Logf("%d messages had their effect again", twice); twice > most {
		t.Errorf("that is more than %d", most)
	}
}

// kill starts a victim and kills it after it has handled more than this many messages.
func kill(t *testing.T, address string, after int) {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), executable) //nolint:gosec // this very program
	cmd.Env = append(os.Environ(), victimVariable+"="+address)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for range after + 1 {
		if !lines.Scan() {
			t.Fatalf("the victim ended by itself: %v", cmd.Wait())
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // says that it was killed
}

func victimKey(i int) string { return fmt.Sprintf("m-%d", i) }
