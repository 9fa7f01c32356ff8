package history_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/delaybridge/delaybridge/internal/fault/history"
)

// The test program as a process that writes events and then kills itself.
const (
	victimVariable = "HISTORY_TEST_VICTIM" // the file to write
	victimEvents   = 50
)

func TestMain(m *testing.M) {
	if path := os.Getenv(victimVariable); path != "" {
		if err := victim(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1) // not killed
	}
	goleak.VerifyTestMain(m)
}

func victim(path string) error {
	w, err := history.Create(path, "victim/1")
	if err != nil {
		return err
	}
	for range victimEvents {
		if err := w.Write(history.Event{Kind: history.Pay, Order: order}); err != nil {
			return err
		}
	}
	return syscall.Kill(os.Getpid(), syscall.SIGKILL)
}
