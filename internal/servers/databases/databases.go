// Package databases starts PostgreSQL and MariaDB, for what keeps orders and ledgers.
// They come from the distribution's packages wherever RabbitMQ and Redis come from.
package databases

import (
	"context"
	"errors"
	"sync"
)

// mostClients is how many connections a database server admits: many tests run
// beside each other, each with a crowd of consumers.
const mostClients = 1000

// A Pair is a PostgreSQL and a MariaDB server.
type Pair struct {
	PostgreSQL *PostgreSQL
	MariaDB    *MariaDB
}

// Start starts both, and returns when they answer. The caller owes them
// a Stop.
func Start(ctx context.Context) (*Pair, error) {
	var (
		d                       Pair
		postgreSQLErr, mariaErr error
		both                    sync.WaitGroup
	)
	both.Go(func() { d.PostgreSQL, postgreSQLErr = StartPostgreSQL(ctx) })
	both.Go(func() { d.MariaDB, mariaErr = StartMariaDB(ctx) })
	both.Wait()
	if err := errors.Join(postgreSQLErr, mariaErr); err != nil {
		return nil, errors.Join(err, d.Stop(context.WithoutCancel(ctx)))
	}
	return &d, nil
}

// Stop ends both and removes their data.
func (d *Pair) Stop(ctx context.Context) error {
	var errs []error
	if d.PostgreSQL != nil {
		errs = append(errs, d.PostgreSQL.Stop(ctx))
	}
	if d.MariaDB != nil {
		errs = append(errs, d.MariaDB.Stop(ctx))
	}
	return errors.Join(errs...)
}
