package schema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"regexp"

	"github.com/delaybridge/delaybridge/internal/sqltx"
)

// lockTimeout is how many seconds one process waits for another one's scripts.
const lockTimeout = 60

// MySQL brings a component up to date on MySQL or MariaDB. There each statement
// that changes tables commits by itself, so a script is one statement, and one
// that may be repeated. Any number of processes may call it at once.
func MySQL(ctx context.Context, db *sql.DB, component string, files fs.FS) error {
	return on(ctx, db, component, files, func(conn *sql.Conn) (func(context.Context, error) error, error) {
		const name = `CONCAT('delaybridge.', MD5(DATABASE()))` // of at most 64 characters
		var held sql.NullInt64
		if err := conn.QueryRowContext(ctx, `SELECT GET_LOCK(`+name+`, ?)`, lockTimeout).Scan(&held); err != nil {
			return nil, err
		}
		if held.Int64 != 1 {
			return nil, fmt.Errorf("no lock on the schema within %d s: does the data source name a database?", lockTimeout)
		}
		return func(ctx context.Context, failed error) error {
			_, err := conn.ExecContext(ctx, `DO RELEASE_LOCK(`+name+`)`)
			return errors.Join(failed, err)
		}, nil
	}, isOurs, `CREATE TABLE IF NOT EXISTS `+Table+` (component VARBINARY(64) NOT NULL PRIMARY KEY, version INT NOT NULL)`)
}

// tableComment is that of each table that a script makes on MySQL.
const tableComment = "delaybridge"

var created = regexp.MustCompile(`CREATE TABLE IF NOT EXISTS (\w+)`)

// isOurs refuses another program's table that has the name of the one that a script makes: to make
// that if it does not exist would adopt it. One of ours, which an interrupted script has left, says so
// in its comment.
func isOurs(ctx context.Context, conn *sql.Conn, script string) error {
	name := created.FindStringSubmatch(script)
	if name == nil {
		return nil
	}
	var comment string
	err := conn.QueryRowContext(ctx, `SELECT table_comment FROM information_schema.tables
		WHERE table_schema = DATABASE() AND table_name = ?`, name[1]).Scan(&comment)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err == nil && comment != tableComment:
		return fmt.Errorf("table %s is there already, and is not the delay bridge's: rename it, or use another database", name[1])
	}
	return err
}

// SQLite brings a component up to date in an SQLite file. Any number of processes
// may call it at once.
func SQLite(ctx context.Context, db *sql.DB, component string, files fs.FS) error {
	if err := sqltx.ConnectSQLite(ctx, db); err != nil {
		return err
	}
	return on(ctx, db, component, files, func(conn *sql.Conn) (func(context.Context, error) error, error) {
		// With the write lock from the beginning, since it reads before it writes.
		if _, err := conn.ExecContext(ctx, `BEGIN IMMEDIATE`); err != nil {
			return nil, err
		}
		return func(ctx context.Context, failed error) error {
			if failed == nil {
				_, failed = conn.ExecContext(ctx, `COMMIT`)
			}
			if failed != nil {
				_, err := conn.ExecContext(ctx, `ROLLBACK`)
				failed = errors.Join(failed, err)
			}
			return failed
		}, nil
	}, func(context.Context, *sql.Conn, string) error { return nil }, `CREATE TABLE IF NOT EXISTS `+Table+` (component TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL) STRICT, WITHOUT ROWID`)
}

// on applies a component's scripts over one connection, alone.
func on(ctx context.Context, db *sql.DB, component string, files fs.FS,
	alone func(*sql.Conn) (done func(context.Context, error) error, err error),
	may func(context.Context, *sql.Conn, string) error, createTable string,
) error {
	scripts, err := Read(files)
	if err != nil {
		return err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // gives it back to the pool
	done, err := alone(conn)
	if err != nil {
		return err
	}
	// A context that has ended must not leave the lock on a connection in the pool.
	return done(context.WithoutCancel(ctx), apply(ctx, conn, component, scripts, may, createTable))
}

func apply(ctx context.Context, conn *sql.Conn, component string, scripts Scripts, may func(context.Context, *sql.Conn, string) error, createTable string) error {
	version := 0
	found := conn.QueryRowContext(ctx, `SELECT version FROM `+Table+` WHERE component = ?`, component).Scan(&version)
	if found != nil { // most likely the first time; if it is something else, this says so
		if _, err := conn.ExecContext(ctx, createTable); err != nil {
			return err
		}
	}
	missing, err := scripts.After(version)
	if err != nil || len(missing) == 0 {
		return err
	}
	for _, script := range missing {
		err := may(ctx, conn, script)
		if err == nil {
			_, err = conn.ExecContext(ctx, script)
		}
		if err != nil {
			return fmt.Errorf("migrate %s to schema version %d: %w", component, version+1, err)
		}
		version++
	}
	_, err = conn.ExecContext(ctx, `REPLACE INTO `+Table+` (component, version) VALUES (?, ?)`, component, version)
	return err
}
