package postgres

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	ledger "github.com/delaybridge/delaybridge/consumer/ledger/postgres"
	"github.com/delaybridge/delaybridge/consumer/orders/internal/change"
)

// attempts is how often a transaction is tried that lost against others.
const attempts = 5

// database is a pool as a [change.Database].
type database struct{ pool *pgxpool.Pool }

func (d database) Read(ctx context.Context) change.Querier {
	if tx := ledger.Tx(ctx); tx != nil {
		return querier{tx}
	}
	return querier{d.pool}
}

func (d database) Write(ctx context.Context, do func(change.Querier) error) error {
	work := func(tx pgx.Tx) error { return do(querier{tx}) }
	if tx := ledger.Tx(ctx); tx != nil {
		return pgx.BeginFunc(ctx, tx, work) // a savepoint
	}
	for attempt := 1; ; attempt++ {
		err := pgx.BeginFunc(ctx, d.pool, work)
		if attempt == attempts || !lost(err) {
			return err
		}
	}
}

// lost reports whether a transaction was rolled back because others were at the
// same, so that it finds another state when it is tried again.
func lost(err error) bool {
	const duplicate, serialization, deadlock = "23505", "40001", "40P01"
	refusal, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (refusal.Code == duplicate || refusal.Code == serialization || refusal.Code == deadlock)
}

// querier is a pool or a transaction as a [change.Querier].
type querier struct {
	db interface {
		Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error)
		Query(ctx context.Context, statement string, args ...any) (pgx.Rows, error)
	}
}

func (q querier) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	tag, err := q.db.Exec(ctx, numbered(statement), args...)
	return tag.RowsAffected(), err
}

func (q querier) Each(ctx context.Context, row func(scan func(...any) error) error, statement string, args ...any) error {
	rows, err := q.db.Query(ctx, numbered(statement), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// numbered writes the parameters of a statement as PostgreSQL does.
func numbered(statement string) string {
	var b strings.Builder
	for i, part := range strings.Split(statement, "?") {
		if i > 0 {
			b.WriteString("$" + strconv.Itoa(i))
		}
		b.WriteString(part)
	}
	return b.String()
}
