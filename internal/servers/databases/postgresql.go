package databases

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/delaybridge/delaybridge/internal/servers/lifecycle"
	"github.com/delaybridge/delaybridge/internal/servers/private"
)

// postgreSQLDirs is where Debian keeps the programs of each major version, which
// are not in PATH.
const postgreSQLDirs = "/usr/lib/postgresql/*/bin"

// postgreSQLUser is the superuser of a private server, and the account it runs as.
const postgreSQLUser = "postgres"

// PostgreSQL is a private PostgreSQL server with the settings it comes with, a
// commit is on disk, except [mostClients].
type PostgreSQL struct {
	lifecycle.Server
	port int
}

// URL is the address of the database that comes with the server. It stays the
// same for the life of the server.
func (p *PostgreSQL) URL() string {
	u := url.URL{
		Scheme: "postgres", User: url.User(postgreSQLUser), Host: lifecycle.Loopback(p.port),
		Path: "/postgres", RawQuery: "sslmode=disable",
	}
	return u.String()
}

// StartPostgreSQL starts a server of its own from the distribution's package,
// and returns when it answers. The caller owes it a Stop, after it has closed
// its connections.
func StartPostgreSQL(ctx context.Context) (*PostgreSQL, error) {
	if err := private.Ensure(ctx, missingPostgreSQL, ""); err != nil {
		return nil, err
	}
	n, err := private.New("postgresql", postgreSQLUser, 1)
	if err != nil {
		return nil, fmt.Errorf("prepare PostgreSQL: %w", err)
	}
	p := &PostgreSQL{port: n.Ports[0].Number}
	p.Server = lifecycle.Server{Name: "PostgreSQL", Instance: n, Probe: p.answers}
	if err := initDB(ctx, n, p.port); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare PostgreSQL: %w", err), n.Discard(ctx))
	}
	if err := p.StartOrDiscard(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// Restart is like that of other servers. The processes that serve clients outlive a
// kill of the first one for a moment, and the server does not start beside them.
func (p *PostgreSQL) Restart(ctx context.Context) error {
	const refusal, patience = "pre-existing shared memory block", 30 * time.Second
	for began := time.Now(); ; {
		err := p.Server.Restart(ctx)
		if err == nil || !strings.Contains(err.Error(), refusal) || time.Since(began) > patience {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Stop ends the server and removes its data. Killed, it would leave its
// System V shared memory behind; so it is asked first, for the kind of shutdown
// that does not wait for its clients.
func (p *PostgreSQL) Stop(ctx context.Context) error {
	if n, ok := p.Instance.(*private.Node); ok {
		_ = n.Signal(syscall.SIGINT) // that it does not run is no failure
		_ = n.Halt(ctx)
	}
	return p.Server.Stop(ctx)
}

// initDB makes the folder of the data and the server's command line.
func initDB(ctx context.Context, n *private.Node, number int) error {
	programs, err := findPostgreSQL()
	if err != nil {
		return err
	}
	data := filepath.Join(n.Dir, "data")
	if err := n.Run(ctx, filepath.Join(programs, "initdb"), "--pgdata="+data,
		"--username="+postgreSQLUser, "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8"); err != nil {
		return err
	}
	n.Program = []string{
		filepath.Join(programs, "postgres"), "-D", data, "-p", strconv.Itoa(number),
		"-c", "listen_addresses=127.0.0.1",
		"-c", "max_connections=" + strconv.Itoa(mostClients),
		"-c", "unix_socket_directories=",
		"-c", "dynamic_shared_memory_type=mmap", // in the folder that is removed
	}
	return nil
}

// answers returns nil once the server accepts connections.
func (p *PostgreSQL) answers(ctx context.Context) error {
	programs, err := findPostgreSQL()
	if err != nil {
		return lifecycle.Hopeless(err)
	}
	return exec.CommandContext(ctx, filepath.Join(programs, "pg_isready"),
		"--quiet", "--host=127.0.0.1", "--port="+strconv.Itoa(p.port)).Run()
}

func missingPostgreSQL() []string {
	if _, err := findPostgreSQL(); err != nil {
		return []string{"postgresql"}
	}
	return nil
}

// findPostgreSQL returns the folder of the newest server's programs.
func findPostgreSQL() (string, error) {
	dirs, err := filepath.Glob(postgreSQLDirs)
	if err != nil {
		return "", err
	}
	major := func(dir string) int {
		number, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		return number
	}
	slices.SortFunc(dirs, func(a, b string) int { return major(b) - major(a) })
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "postgres")); err == nil {
			return dir, nil
		}
	}
	if program, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(program), nil
	}
	return "", errors.New("no PostgreSQL server found")
}
