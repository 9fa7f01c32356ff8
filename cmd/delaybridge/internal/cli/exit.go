package cli

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
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitDrift       = 3
	ExitUnreachable = 4
	ExitInterrupted = 130
)

// codedError is an error that knows the exit code it stands for.
type codedError struct {
	code int
	error
}

func (e codedError) Unwrap() error { return e.error }

// WithCode has err end the program with that exit code.
func WithCode(code int, err error) error { return codedError{code, err} }

// Usage marks err as a mistake in the command line or the configuration.
func Usage(err error) error { return WithCode(ExitUsage, err) }

// ExitCode is that of a command which has ended with err.
func ExitCode(ctx context.Context, err error) int {
	var coded codedError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &coded):
		return coded.code
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.Is(err, broker.ErrUnreachable), errors.Is(err, redisbridge.ErrUnreachable),
		errors.Is(err, topology.ErrUnreachable):
		return ExitUnreachable
	case errors.Is(err, broker.ErrConfiguration), errors.Is(err, redisbridge.ErrConfiguration),
		errors.Is(err, topology.ErrConfiguration), errors.Is(err, migration.ErrInput),
		errors.Is(err, producer.ErrInvalid), errors.Is(err, redisbridge.ErrInvalid):
		return ExitUsage
	}
	return ExitFailed
}
