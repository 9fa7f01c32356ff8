package fault

import (
	"context"
	"database/sql"
	_ "embed"
	"os"
	"path/filepath"
	"strings"

	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/internal/servers"
)

// The shop in Python: a process that places orders, and one that closes them. Its orders are in
// PostgreSQL. A run without PostgreSQL has no such shop.
const (
	pythonCustomers = "python-customers"
	pythonConsumer  = "python-consumer"
	pythonQueue     = "shop.python"
	pythonKey       = keyPrefix + "python"
	pythonOrder     = "py-"              // begins the IDs of its orders
	pythonShare     = 0.05               // of the rate of all others
	python          = "/usr/bin/python3" // Debian's, which has the clients
)

//go:embed shop.py
var pythonShop []byte

// pythonTable has PostgreSQL write down by itself which orders of the shop in Python were closed.
const pythonTable = `
	CREATE TABLE shop_orders (id text PRIMARY KEY, state text NOT NULL);
	CREATE TRIGGER closed AFTER UPDATE OF state ON shop_orders FOR EACH ROW
		WHEN (NEW.state = 'closed') EXECUTE FUNCTION note_closing()`

func (w *world) pythonFile() string { return filepath.Join(w.dir, "shop.py") }

// providePython makes the shop's program and what it needs.
func (w *world) providePython(ctx context.Context) error {
	if err := servers.EnsureClients(ctx, map[string]string{
		"python3-pika": "/usr/lib/python3/dist-packages/pika", "python3-psycopg2": "/usr/lib/python3/dist-packages/psycopg2",
	}); err != nil {
		return err
	}
	return os.WriteFile(w.pythonFile(), pythonShop, 0o600)
}

// employPython starts one of the shop's processes.
func (w *world) employPython(r role, node int) error {
	r.Seed, r.Queue, r.Bind = w.seed, pythonQueue, []string{pythonKey}
	r.Unasked, r.Ahead = lead.Microseconds(), relayedWithin.Microseconds()
	return w.employ(r, node)
}

func (r *role) inPython() bool { return strings.HasPrefix(r.Kind, "python") }

// countPython notes down what became of the orders of the shop in Python.
func (w *world) countPython(db *sql.DB, final *history.Final) error {
	rows, err := db.QueryContext(w.ctx, `
		SELECT id, state, (SELECT count(*) FROM closings c WHERE c.id = o.id) FROM shop_orders o`)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id string
		var state history.OrderState
		if err := rows.Scan(&id, &state.State, &state.Closings); err != nil {
			return err
		}
		final.Orders[id] = state
	}
	return rows.Err()
}
