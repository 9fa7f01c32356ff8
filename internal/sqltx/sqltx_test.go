package sqltx_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	_ "modernc.org/sqlite" // the database/sql driver

	"github.com/delaybridge/delaybridge/internal/sqltx"
)

func open(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE notes (text TEXT)`); err != nil {
		t.Fatal(err)
	}
	return db
}

func note(ctx context.Context, tx *sql.Tx, text string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO notes (text) VALUES (?)`, text)
	return err
}

func wantNotes(t *testing.T, db *sql.DB, want ...string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT text FROM notes ORDER BY rowid`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		got = append(got, text)
	}
	if err := rows.Err(); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	db := open(t)
	run := func(text string, end func() error) error {
		return sqltx.Run(t.Context(), db, nil, func(tx *sql.Tx) error {
			return errors.Join(note(t.Context(), tx, text), end())
		})
	}
	broken := errors.New("broken")
	if err := run("committed", func() error { return nil }); err != nil {
		t.Error(err)
	}
	if err := run("failed", func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v, want the error of what was run", err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was lost")
			}
		}()
		_ = run("panicked", func() error { panic("broken") })
	}()
	wantNotes(t, db, "committed")
}

// What fails within a transaction takes back its own part alone, whatever the one
// around it makes of the error.
func TestWithin(t *testing.T) {
	t.Parallel()
	db := open(t)
	broken := errors.New("broken")
	err := sqltx.Run(t.Context(), db, nil, func(tx *sql.Tx) error {
		part := func(text string, end error) error {
			return sqltx.Within(t.Context(), tx, func(tx *sql.Tx) error { return errors.Join(note(t.Context(), tx, text), end) })
		}
		if err := note(t.Context(), tx, "before"); err != nil {
			return err
		}
		if err := part("failed", broken); !errors.Is(err, broken) {
			t.Errorf("got %v, want the error of the part", err)
		}
		if err := part("done", nil); err != nil {
			return err
		}
		return note(t.Context(), tx, "after")
	})
	if err != nil {
		t.Fatal(err)
	}
	wantNotes(t, db, "before", "done", "after")
}
