package servertest

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"

	"github.com/delaybridge/delaybridge/internal/servers/databases"
)

// Environment variables that name database servers which run already. The user in
// each must be allowed to create databases.
const (
	// PostgreSQLVariable is a URL, postgres://.
	PostgreSQLVariable = "DELAYBRIDGE_TEST_POSTGRESQL_URL"
	// MariaDBVariable is a DSN of github.com/go-sql-driver/mysql, of a MariaDB or
	// MySQL server and without a database.
	MariaDBVariable = "DELAYBRIDGE_TEST_MARIADB_DSN"
)

// PostgreSQL gives a test an empty database of its own, and returns its URL.
func PostgreSQL(t testing.TB) string {
	t.Helper()
	at, err := shared.postgreSQL.start(t.Context(), PostgreSQLVariable, func(ctx context.Context) (string, stopper, error) {
		p, err := databases.StartPostgreSQL(ctx)
		if err != nil {
			return "", nil, err
		}
		return p.URL(), p, nil
	})
	if err != nil {
		t.Fatalf("no PostgreSQL for tests: %v", err)
	}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	name := newDatabase(t, func(ctx context.Context, statement string) (err error) {
		conn, err := pgx.Connect(ctx, at)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, conn.Close(ctx)) }()
		_, err = conn.Exec(ctx, statement)
		return err
	}, `CREATE DATABASE "%s"`, `DROP DATABASE "%s" WITH (FORCE)`)
	u.Path = "/" + name
	return u.String()
}

// MariaDB gives a test an empty database of its own, and returns its DSN for
// github.com/go-sql-driver/mysql.
func MariaDB(t testing.TB) string {
	t.Helper()
	at, err := shared.mariaDB.start(t.Context(), MariaDBVariable, func(ctx context.Context) (string, stopper, error) {
		m, err := databases.StartMariaDB(ctx)
		if err != nil {
			return "", nil, err
		}
		return m.DSN(), m, nil
	})
	if err != nil {
		t.Fatalf("no MariaDB for tests: %v", err)
	}
	config, err := mysql.ParseDSN(at)
	if err != nil {
		t.Fatal(err)
	}
	config.DBName = newDatabase(t, func(ctx context.Context, statement string) (err error) {
		db, err := sql.Open("mysql", at)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		_, err = db.ExecContext(ctx, statement)
		return err
	}, "CREATE DATABASE `%s`", "DROP DATABASE `%s`")
	return config.FormatDSN()
}

// newDatabase creates a database, and drops it when the test is over.
func newDatabase(t testing.TB, execute func(ctx context.Context, statement string) error, create, drop string) string {
	t.Helper()
	name := "t-" + strings.ToLower(rand.Text()[:12])
	if err := execute(t.Context(), fmt.Sprintf(create, name)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanUpTimeout)
		defer cancel()
		if err := execute(ctx, fmt.Sprintf(drop, name)); err != nil {
			t.Error(err)
		}
	})
	return name
}

// stopper is a server.
type stopper interface {
	Stop(ctx context.Context) error
}

// database is a database server that the tests of this process share, started by
// the first test that needs it.
type database struct {
	mu     sync.Mutex
	tried  bool
	err    error
	at     string
	server stopper // nil when the environment names it
}

// start returns where the server answers: the one that the environment names, or
// one of this process's own.
func (d *database) start(ctx context.Context, variable string, launch func(context.Context) (string, stopper, error)) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tried {
		return d.at, d.err
	}
	d.tried = true
	if d.at = os.Getenv(variable); d.at != "" {
		return d.at, nil
	}
	if d.at, d.server, d.err = launch(ctx); d.err != nil {
		d.err = fmt.Errorf("%w; or name a server in %s", d.err, variable)
	}
	return d.at, d.err
}

// stop ends the server if this process has started it.
func (d *database) stop(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	server := d.server
	d.server, d.tried, d.err = nil, true, cmp.Or(d.err, errors.New("the database server has been stopped"))
	if server == nil {
		return nil
	}
	return server.Stop(ctx)
}
