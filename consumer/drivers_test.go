package consumer_test

import (
	"os/exec"
	"strings"
	"testing"
)

// Whoever only consumes gets no driver with it.
func TestConsumingNeedsNoDriver(t *testing.T) {
	t.Parallel()
	list, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".", "./ledger", "./ledger/sqlite", "./orders").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.Lines(string(list)) {
		for _, driver := range []string{"jackc/pgx", "go-sql-driver", "modernc.org", "redis/go-redis"} {
			if strings.Contains(path, driver) {
				t.Errorf("%s is linked into every consumer", strings.TrimSpace(path))
			}
		}
	}
}
