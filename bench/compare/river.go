package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/delaybridge/delaybridge/internal/servers/databases"
	"github.com/delaybridge/delaybridge/internal/usage"
)

// riverQueue is River on PostgreSQL with its own durable defaults.
type riverQueue struct {
	server *databases.PostgreSQL
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]

	inserts chan *insert
	gather  sync.WaitGroup
}

const (
	riverWorkers     = 1_000
	riverConnections = 32
	// riverPoll is how often River looks for jobs that are due; jobs become
	// available for it up to 5 s ahead, which cannot be configured. The defaults
	// are 1 s, and 100 ms for the pause between two fetches.
	riverPoll = 5 * time.Millisecond
	// riverInserters is how many batches are inserted at a time, and
	// riverBatch how many jobs one may hold.
	riverInserters = 4
	riverBatch     = 1_000
)

// delayed are the arguments of a job.
type delayed struct {
	Body []byte `json:"body"`
}

func (delayed) Kind() string { return "compare" }

type worker struct {
	river.WorkerDefaults[delayed]
	deliver func([]byte)
}

func (w *worker) Work(_ context.Context, job *river.Job[delayed]) error {
	w.deliver(job.Args.Body)
	return nil
}

func (r *riverQueue) start(ctx context.Context, deliver func([]byte)) (err error) {
	if r.server, err = databases.StartPostgreSQL(ctx); err != nil {
		return err
	}
	config, err := pgxpool.ParseConfig(r.server.URL())
	if err != nil {
		return err
	}
	config.MaxConns = riverConnections
	if r.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	driver := riverpgxv5.New(r.pool)
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: logger})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{deliver: deliver})
	r.client, err = river.NewClient(driver, &river.Config{
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: riverWorkers}},
		Workers:           workers,
		FetchCooldown:     riverPoll,
		FetchPollInterval: riverPoll,
		Logger:            logger,
	})
	if err != nil {
		return err
	}
	r.inserts = make(chan *insert, riverBatch)
	for range riverInserters {
		r.gather.Go(func() { r.insert() })
	}
	return r.client.Start(context.WithoutCancel(ctx))
}

// insert is a job on its way into the table, and where its outcome goes.
type insert struct {
	params river.InsertManyParams
	done   chan error
}

// insert gathers what many callers wait for into one transaction. A job each
// would have a commit each, which no contender is asked for.
func (r *riverQueue) insert() {
	for first := range r.inserts {
		batch := []*insert{first}
		for more := true; more && len(batch) < riverBatch; {
			select {
			case next, open := <-r.inserts:
				if more = open; open {
					batch = append(batch, next)
				}
			default:
				more = false
			}
		}
		params := make([]river.InsertManyParams, len(batch))
		for i, one := range batch {
			params[i] = one.params
		}
		_, err := r.client.InsertManyFast(context.Background(), params)
		for _, one := range batch {
			one.done <- err
		}
	}
}

func (r *riverQueue) publish(ctx context.Context, body []byte, delay time.Duration) error {
	one := &insert{done: make(chan error, 1), params: river.InsertManyParams{
		Args:       delayed{Body: body},
		InsertOpts: &river.InsertOpts{ScheduledAt: time.Now().Add(delay)},
	}}
	select {
	case r.inserts <- one:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-one.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// memory is the growth of the database: rows and indexes are on disk, and in
// memory as far as there is room.
func (r *riverQueue) memory(ctx context.Context) (map[string]float64, error) {
	var bytes int64
	err := r.pool.QueryRow(ctx, "select pg_database_size(current_database())").Scan(&bytes)
	return map[string]float64{usage.PostgreSQL: float64(bytes)}, err
}

func (r *riverQueue) stop() error {
	var errs []error
	if r.client != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := r.client.StopAndCancel(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			errs = append(errs, err)
		}
	}
	if r.inserts != nil {
		close(r.inserts)
		r.gather.Wait()
	}
	if r.pool != nil {
		r.pool.Close()
	}
	if r.server != nil {
		errs = append(errs, r.server.Stop(context.Background()))
	}
	return errors.Join(errs...)
}
