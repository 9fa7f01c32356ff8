package sqlite

import (
	"context"
	"database/sql"

	ledger "github.com/delaybridge/delaybridge/consumer/ledger/sqlite"
	"github.com/delaybridge/delaybridge/consumer/orders/internal/change"
	"github.com/delaybridge/delaybridge/internal/sqltx"
)

// database is a file as a [change.Database].
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
	return sqltx.Run(ctx, d.db, nil, work)
}
