package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/delaybridge/delaybridge/consumer/ledger"
	ledgers "github.com/delaybridge/delaybridge/consumer/ledger/sqlite"
	"github.com/delaybridge/delaybridge/consumer/orders"
	"github.com/delaybridge/delaybridge/consumer/orders/orderstest"
	"github.com/delaybridge/delaybridge/consumer/orders/sqlite"
)

func open(t testing.TB, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestConformance(t *testing.T) {
	t.Parallel()
	orderstest.Run(t, func(t testing.TB) func() orderstest.Shop {
		t.Helper()
		path := filepath.Join(t.TempDir(), "orders.db")
		return func() orderstest.Shop { return open(t, path) }
	})
}

func TestWithLedger(t *testing.T) {
	t.Parallel()
	orderstest.RunWithLedger(t, func(t testing.TB) func() (orderstest.Shop, ledger.Ledger) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "orders.db")
		return func() (orderstest.Shop, ledger.Ledger) {
			s := open(t, path)
			l := ledgers.New(s.DB())
			if err := l.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			return s, l
		}
	})
}

func TestOpenAnyPath(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"orders.db", "with a space", "100%", "a?b=c&d#e", "a%20b", "ünï", ":memory:"} {
		path := filepath.Join(t.TempDir(), name)
		if err := open(t, path).Restock(t.Context(), "tea", 1); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%q: the file is not where it was asked for: %v", name, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	noDatabase := filepath.Join(dir, "letter.txt")
	if err := os.WriteFile(noDatabase, []byte(strings.Repeat("Dear customer, ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"no path": "", "a folder": dir, "a missing folder": filepath.Join(dir, "missing", "orders.db"), "another file": noDatabase,
	} {
		if _, err := sqlite.Open(t.Context(), path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want an error that names %q", name, err, path)
		}
	}
}

func TestOpenKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "orders.db")
	first := open(t, path)
	if err := first.Restock(t.Context(), "tea", 1); err != nil {
		t.Fatal(err)
	}
	if err := first.Place(t.Context(), orders.Order{ID: "o-1", SKU: "tea", Quantity: 1}); err != nil {
		t.Fatal(err)
	}
	if o, err := open(t, path).Order(t.Context(), "o-1"); err != nil || o.State != orders.Pending {
		t.Errorf("got %+v, %v, want the pending order", o, err)
	}
}

func TestOpenAtOnce(t *testing.T) {
	t.Parallel()
	for range 30 { // new files, some of which SQLite is not ready to share at first
		path := filepath.Join(t.TempDir(), "orders.db")
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				s, err := sqlite.Open(t.Context(), path)
				if err != nil {
					t.Error(err)
					return
				}
				if err := s.Shutdown(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}

const shared = 100 // orders that two processes decide

func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "orders.db")
	s := open(t, path)
	if err := s.Restock(t.Context(), "tea", shared); err != nil {
		t.Fatal(err)
	}
	for i := range shared {
		if err := s.Place(t.Context(), orders.Order{ID: orderID(i), SKU: "tea", Quantity: 1}); err != nil {
			t.Fatal(err)
		}
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, offset := range []string{"", "1"} {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), executable, offset)
			cmd.Env = append(os.Environ(), fileVariable+"="+path)
			if output, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, output)
			}
		})
	}
	wg.Wait()
	paid := 0
	for i := range shared {
		switch o, err := s.Order(t.Context(), orderID(i)); {
		case err != nil || o.State == orders.Pending:
			t.Errorf("got %+v, %v, want it decided", o, err)
		case o.State == orders.Paid:
			paid++
		}
	}
	stock, err := s.Stock(t.Context())
	if err != nil || stock[0].Available != shared-paid {
		t.Errorf("stock is %v, %v; %d of %d orders are paid", stock, err, paid, shared)
	}
}

// decideAll closes every second order and pays the others. Two processes with
// offsets 0 and 1 contradict each other throughout.
func decideAll(path string, offset int) error {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, path)
	if err != nil {
		return err
	}
	for i := range shared {
		if (i+offset)%2 == 0 {
			if _, err := s.Close(ctx, orderID(i)); err != nil {
				return err
			}
			continue
		}
		if err := s.Pay(ctx, orderID(i)); err != nil && !errors.Is(err, orders.ErrClosed) {
			return err
		}
	}
	return s.Shutdown()
}

func orderID(i int) string { return fmt.Sprintf("o-%d", i) }
