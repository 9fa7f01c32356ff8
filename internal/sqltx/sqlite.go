package sqltx

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

const (
	connectPatience = time.Minute
	connectPause    = 20 * time.Millisecond
)

// ConnectSQLite makes sure that db can open a new SQLite file that others open at the same
// time. A data source that asks for a write-ahead log has each connection turn the file
// into one, and SQLite refuses that to all but one of them (SQLITE_BUSY) without waiting
// for the busy timeout, since each has begun to read. It returns an error after a minute,
// or with ctx.
func ConnectSQLite(ctx context.Context, db *sql.DB) error {
	ctx, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	for {
		err := db.PingContext(ctx)
		if !SQLiteBusy(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(connectPause):
		}
	}
}

// SQLiteBusy reports whether another connection had SQLite's write lock for too long, as far as
// the driver's errors have SQLite's result code.
func SQLiteBusy(err error) bool {
	const code, mask = 5, 0xff // SQLITE_BUSY and its extensions
	refusal, ok := errors.AsType[interface {
		error
		Code() int
	}](err)
	return ok && refusal.Code()&mask == code
}
