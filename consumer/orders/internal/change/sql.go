package change

import (
	"context"
	"database/sql"
)

// SQL is a database or a transaction of database/sql as a [Querier].
type SQL struct {
	DB interface {
		ExecContext(ctx context.Context, statement string, args ...any) (sql.Result, error)
		QueryContext(ctx context.Context, statement string, args ...any) (*sql.Rows, error)
	}
}

// Exec implements [Querier].
func (s SQL) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	result, err := s.DB.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Each implements [Querier].
func (s SQL) Each(ctx context.Context, row func(scan func(...any) error) error, statement string, args ...any) error {
	rows, err := s.DB.QueryContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err has what matters
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
