package sqlite_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// fileVariable makes this test binary another process that decides orders, in
// the file that the variable names. Its argument says which ones it closes.
const fileVariable = "DELAYBRIDGE_TEST_ORDERS_FILE"

func TestMain(m *testing.M) {
	if path := os.Getenv(fileVariable); path != "" {
		if err := decideAll(path, len(os.Args[1])); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
