package databases_test

import (
	"context"
	"database/sql"
	"testing"

	_ "github.com/go-sql-driver/mysql" // the database/sql driver

	"github.com/delaybridge/delaybridge/internal/servers/databases"
)

func TestMariaDBKeepsCommitsThroughKillAndRestart(t *testing.T) {
	t.Parallel()
	m, err := databases.StartMariaDB(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("mysql", m.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{
		"CREATE DATABASE shop", "CREATE TABLE shop.orders (id INT PRIMARY KEY)", "INSERT INTO shop.orders VALUES (42)",
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := db.PingContext(t.Context()); err == nil {
		t.Error("a killed server answers")
	}
	if err := m.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	var id int
	if err := db.QueryRowContext(t.Context(), "SELECT id FROM shop.orders").Scan(&id); err != nil || id != 42 {
		t.Errorf("got %d, %v, want the commit back", id, err)
	}
	if err := m.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if err := db.PingContext(t.Context()); err == nil {
		t.Error("a stopped server answers")
	}
}
