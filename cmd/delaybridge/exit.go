package main

import (
	"context"
	"errors"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/migration"
	"github.com/delaybridge/delaybridge/producer"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// The exit codes, as documented in docs/cli.md.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitDrift       = 3
	exitUnreachable = 4
	exitInterrupted = 130
)

// codedError is an error that knows the exit code it stands for.
type codedError struct {
	code int
	error
}

func (e codedError) Unwrap() error { return e.error }

// withCode has err end the program with that exit code.
func withCode(code int, err error) error { return codedError{code, err} }

// usage marks err as a mistake in the command line or the configuration.
func usage(err error) error { return withCode(exitUsage, err) }

// exitCode is that of a command which has ended with err.
func exitCode(ctx context.Context, err error) int {
	var coded codedError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &coded):
		return coded.code
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, broker.ErrUnreachable), errors.Is(err, redisbridge.ErrUnreachable),
		errors.Is(err, topology.ErrUnreachable):
		return exitUnreachable
	case errors.Is(err, broker.ErrConfiguration), errors.Is(err, redisbridge.ErrConfiguration),
		errors.Is(err, topology.ErrConfiguration), errors.Is(err, migration.ErrInput),
		errors.Is(err, producer.ErrInvalid), errors.Is(err, redisbridge.ErrInvalid):
		return exitUsage
	}
	return exitFailed
}
