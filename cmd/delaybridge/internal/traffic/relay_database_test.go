package traffic

import (
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/internal/settings"
)

// patience is how long a test waits for what happens at once on a quiet machine.
const patience = 90 * time.Second

// The user of the database is replaced while a relay runs: its next connection is made with what
// the file has by then.
func TestDatabaseUserReplacedInFile(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		name, driver string
		url          func(t *testing.T) (admin, url string)
		make         []string // a user, with a password
		lock         string
		connections  string // the statements that end those of a user
	}{
		{
			"PostgreSQL", "pgx", func(t *testing.T) (string, string) {
				t.Helper()
				at := servertest.PostgreSQL(t)
				return at, at
			},
			[]string{`CREATE ROLE "%[1]s" SUPERUSER LOGIN PASSWORD '%[2]s'`}, `ALTER ROLE "%[1]s" NOLOGIN`,
			`SELECT 'SELECT pg_terminate_backend(' || pid || ')' FROM pg_stat_activity WHERE usename = '%[1]s'`,
		},
		{
			"MariaDB", "mysql", func(t *testing.T) (string, string) {
				t.Helper()
				dsn := servertest.MariaDB(t)
				c, err := mysqldriver.ParseDSN(dsn)
				if err != nil {
					t.Fatal(err)
				}
				return dsn, "mysql://" + c.Addr + "/" + c.DBName
			},
			[]string{`CREATE USER '%[1]s' IDENTIFIED BY '%[2]s'`, `GRANT ALL ON *.* TO '%[1]s'`}, `ALTER USER '%[1]s' ACCOUNT LOCK`,
			`SELECT concat('KILL ', id) FROM information_schema.processlist WHERE user = '%[1]s'`,
		},
	} {
		t.Run(of.name, func(t *testing.T) {
			t.Parallel()
			dsn, at := of.url(t)
			db, err := sql.Open(of.driver, dsn)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			do := func(statement string) {
				t.Helper()
				if _, err := db.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(t.TempDir(), "database-url")
			become := func(password string) (user string) {
				t.Helper()
				user = "u-" + strings.ToLower(rand.Text()[:10])
				for _, statement := range of.make {
					do(fmt.Sprintf(statement, user, password))
				}
				u, err := url.Parse(at)
				if err != nil {
					t.Fatal(err)
				}
				u.User = url.UserPassword(user, password)
				if err := os.WriteFile(path, []byte(u.String()+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				return user
			}
			old := become("one")
			store, closeStore, err := openOutbox(t.Context(), settings.Value{Key: "database-url", Value: "file://" + path, File: path}, 1)
			if err != nil {
				t.Fatal(err)
			}
			defer closeStore()
			if err := store.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			become("two")
			do(fmt.Sprintf(of.lock, old))
			ends := textsOf(t, db, fmt.Sprintf(of.connections, old))
			if len(ends) == 0 {
				t.Fatal("the old user has no connection")
			}
			for _, end := range ends {
				do(end)
			}
			ticker := time.NewTicker(20 * time.Millisecond)
			defer ticker.Stop()
			for deadline := time.After(patience); ; {
				if _, err = store.Failed(t.Context(), 1); err == nil {
					break
				}
				select {
				case <-ticker.C:
				case <-deadline:
					t.Fatalf("the new user does not read: %v", err)
				}
			}
		})
	}
}

// textsOf returns the one column of a query.
func textsOf(t *testing.T, db *sql.DB, query string) (texts []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return texts
}
