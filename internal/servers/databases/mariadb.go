package databases

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/delaybridge/delaybridge/internal/servers/lifecycle"
	"github.com/delaybridge/delaybridge/internal/servers/private"
)

// mariaDBAccount is who a private server runs as. The package with nothing but
// the server's programs brings no account of its own.
const mariaDBAccount = "nobody"

// MariaDB is a private MariaDB server with the settings it comes with, a commit
// is on disk, except [mostClients].
type MariaDB struct {
	lifecycle.Server
	port int
}

// DSN is the server's address as github.com/go-sql-driver/mysql reads it, of a
// user who may do everything, and without a database. It stays the same for the
// life of the server.
func (m *MariaDB) DSN() string { return "root@tcp(" + lifecycle.Loopback(m.port) + ")/" }

// StartMariaDB starts a server of its own from the distribution's package, and
// returns when it answers. The caller owes it a Stop.
func StartMariaDB(ctx context.Context) (*MariaDB, error) {
	if err := private.Ensure(ctx, missingMariaDB, ""); err != nil {
		return nil, err
	}
	n, err := private.New("mariadb", mariaDBAccount, 1)
	if err != nil {
		return nil, fmt.Errorf("prepare MariaDB: %w", err)
	}
	m := &MariaDB{port: n.Ports[0].Number}
	m.Server = lifecycle.Server{Name: "MariaDB", Instance: n, Probe: m.answers}
	if err := installMariaDB(ctx, n, m.port); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare MariaDB: %w", err), n.Discard(ctx))
	}
	if err := m.StartOrDiscard(ctx); err != nil {
		return nil, err
	}
	return m, nil
}

// installMariaDB makes the folder of the data and the server's command line.
func installMariaDB(ctx context.Context, n *private.Node, number int) error {
	program, err := exec.LookPath("mariadbd")
	if err != nil {
		return err
	}
	data := filepath.Join(n.Dir, "data")
	if err := n.Run(ctx, "mariadb-install-db", "--no-defaults", "--datadir="+data, "--tmpdir="+n.Dir,
		"--auth-root-authentication-method=normal", "--skip-test-db"); err != nil {
		return err
	}
	n.Program = []string{
		program, "--no-defaults", "--datadir=" + data, "--tmpdir=" + n.Dir,
		"--bind-address=127.0.0.1", "--port=" + strconv.Itoa(number),
		"--socket=" + filepath.Join(n.Dir, "socket"), "--pid-file=" + filepath.Join(n.Dir, "pid"),
		"--max-connections=" + strconv.Itoa(mostClients),
	}
	return nil
}

// answers returns nil once the server greets its clients.
func (m *MariaDB) answers(ctx context.Context) error {
	conn, err := lifecycle.Dialer(ctx)("tcp", lifecycle.Loopback(m.port))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	// The greeting is a packet: four bytes of length and number, then the version of
	// the protocol, for which a refusal has another value.
	const protocol = 10
	var greeting [5]byte
	if _, err := io.ReadFull(conn, greeting[:]); err != nil {
		return err
	}
	if greeting[4] != protocol {
		return fmt.Errorf("the server refuses its clients: %d", greeting[4])
	}
	return nil
}

// missingMariaDB names the packages of the programs that are not here.
func missingMariaDB() []string {
	var missing []string
	lacks := func(program string) bool {
		_, err := exec.LookPath(program)
		return err != nil
	}
	if lacks("mariadbd") || lacks("mariadb-install-db") {
		missing = append(missing, "mariadb-server-core")
	}
	if lacks("my_print_defaults") { // which mariadb-install-db calls
		missing = append(missing, "mariadb-client-core")
	}
	return missing
}
