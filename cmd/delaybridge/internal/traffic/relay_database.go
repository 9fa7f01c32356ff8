package traffic

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/secretfile"
	"github.com/delaybridge/delaybridge/internal/settings"
	"github.com/delaybridge/delaybridge/producer/outbox"
	"github.com/delaybridge/delaybridge/producer/outbox/mysql"
	"github.com/delaybridge/delaybridge/producer/outbox/postgres"
	"github.com/delaybridge/delaybridge/producer/outbox/sqlite"
)

// the database/sql driver

// migrating is an outbox whose table can be made.
type migrating interface {
	outbox.Store
	Migrate(ctx context.Context) error
}

// awaitOutbox makes the table, as soon as the database answers.
func awaitOutbox(ctx context.Context, store migrating) error {
	for {
		err := store.Migrate(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return cli.WithCode(cli.ExitUnreachable, fmt.Errorf("cannot reach the database: %w", err))
		case <-time.After(retryRedis):
		}
	}
}

// openOutbox opens the database of a URL. It does no I/O, but to read a file that has the URL;
// of that, every connection takes the user and the password of then.
func openOutbox(ctx context.Context, from settings.Value, workers int) (migrating, func(), error) {
	const want = "want postgres://, mysql:// or sqlite:///path"
	text, err := databaseURL(from)
	if err != nil {
		return nil, nil, cli.Usage(fmt.Errorf("--database-url-file: %w", err))
	}
	if text == "" {
		return nil, nil, cli.Usage(fmt.Errorf("--database-url is missing: %s", want))
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, nil, cli.Usage(fmt.Errorf("--database-url is not a URL: %s", want))
	}
	switch u.Scheme {
	case "postgres", "postgresql":
		config, err := pgxpool.ParseConfig(text)
		if err != nil {
			return nil, nil, cli.Usage(fmt.Errorf("--database-url: %w", err))
		}
		config.MaxConns = max(config.MaxConns, int32(min(workers, maxConnections))+2) //nolint:gosec // at most maxConnections; one listens, one counts
		config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
			text, err := databaseURL(from)
			if err != nil {
				return err
			}
			now, err := pgx.ParseConfig(text)
			if err == nil {
				c.User, c.Password = now.User, now.Password
			}
			return err
		}
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return nil, nil, cli.Usage(fmt.Errorf("--database-url: %w", err))
		}
		return postgres.New(pool), pool.Close, nil
	case "mysql", "mariadb":
		c, err := mysqlConfig(u)
		if err != nil {
			return nil, nil, cli.Usage(err)
		}
		fresh := func(_ context.Context, c *mysqldriver.Config) error {
			text, err := databaseURL(from)
			if err != nil {
				return err
			}
			now, err := url.Parse(text)
			if err != nil { // which quotes the URL
				return fmt.Errorf("%s: the URL in it cannot be parsed", from.File)
			}
			c.User = now.User.Username()
			c.Passwd, _ = now.User.Password()
			return nil
		}
		if err := c.Apply(mysqldriver.BeforeConnect(fresh)); err != nil {
			return nil, nil, cli.Usage(fmt.Errorf("--database-url: %w", err))
		}
		connector, err := mysqldriver.NewConnector(c)
		if err != nil {
			return nil, nil, cli.Usage(fmt.Errorf("--database-url: %w", err))
		}
		db := sql.OpenDB(connector)
		return mysql.New(db), func() { _ = db.Close() }, nil
	case "sqlite", "file":
		path := strings.TrimPrefix(u.Opaque+u.Path, "//")
		if path == "" {
			return nil, nil, cli.Usage(errors.New("--database-url names no file: write sqlite:///path"))
		}
		db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?_txlock=immediate&_pragma=busy_timeout(10000)")
		if err != nil {
			return nil, nil, cli.Usage(fmt.Errorf("--database-url: %w", err))
		}
		return sqlite.New(db), func() { _ = db.Close() }, nil
	}
	return nil, nil, cli.Usage(fmt.Errorf("--database-url begins with %q: %s", u.Scheme+":", want))
}

// maxConnections bounds what a relay takes of a database's connections.
const maxConnections = 100

// databaseURL is the URL of now. It is not for secretfile.Resolve: file:///path is a database, too.
func databaseURL(v settings.Value) (string, error) {
	if v.File == "" {
		return v.Value, nil
	}
	return secretfile.Read(v.File)
}

// mysqlConfig is a URL as the driver wants it.
func mysqlConfig(u *url.URL) (*mysqldriver.Config, error) {
	name := strings.TrimPrefix(u.Path, "/")
	if name == "" {
		return nil, errors.New("--database-url names no database: write mysql://user:password@host:port/database")
	}
	c := mysqldriver.NewConfig()
	c.User = u.User.Username()
	c.Passwd, _ = u.User.Password()
	c.Net, c.Addr, c.DBName = "tcp", u.Host, name
	if u.Port() == "" {
		c.Addr += ":3306"
	}
	switch tls := u.Query().Get("tls"); tls {
	case "", "true", "false", "skip-verify", "preferred":
		c.TLSConfig = tls
	default:
		return nil, fmt.Errorf("--database-url: tls=%q: use true, false, skip-verify or preferred", tls)
	}
	return c, nil
}
