package mysql

import (
	"context"
	"database/sql"
	"errors"

	"github.com/go-sql-driver/mysql"

	ledger "github.com/delaybridge/delaybridge/consumer/ledger/mysql"
	"github.com/delaybridge/delaybridge/consumer/orders/internal/change"
	"github.com/delaybridge/delaybridge/internal/sqltx"
)

// attempts is how often a transaction is tried that lost against others.
const attempts = 5

// database is a pool as a [change.Database].
type database struct{ db *sql.DB }

func (d database) Read(ctx context.Context) change.Querier {
	if tx := ledger.Tx(ctx); tx != nil {
		return change.SQL{DB: tx}
	}
	return change.SQL{DB: d.db}
}

func (d database) Write(ctx context.Context, do func(change.Querier) error) error {
	work := func(tx *sql.Tx) error { return do(change.SQL{DB: tx}) }
	if tx := ledger.Tx(ctx); tx != nil {
		return sqltx.Within(ctx, tx, work)
	}
	// Repeatable reads, the default, lock gaps between rows, over which transactions
	// about different orders would wait for each other.
	options := &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	for attempt := 1; ; attempt++ {
		err := sqltx.Run(ctx, d.db, options, work)
		if attempt == attempts || !lost(err) {
			return err
		}
	}
}

// lost reports whether a transaction was rolled back because others were at the
// same, so that it finds another state when it is tried again.
func lost(err error) bool {
	const duplicate, deadlock = 1062, 1213
	refusal, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && (refusal.Number == duplicate || refusal.Number == deadlock)
}
