package redisbridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/broker"
)

// Errors that callers branch on.
var (
	// ErrUnconfirmed means that nobody can know whether Redis has the message:
	// the connection ended, or the caller stopped waiting, before the answer.
	// Parking again with the same ID is safe.
	ErrUnconfirmed = broker.ErrUnconfirmed
	// ErrUnreachable means that there is no connection to Redis; nothing was sent.
	ErrUnreachable = errors.New("cannot reach Redis; is it running, and is the address right?")
	// ErrConfiguration means that the password, a permission or a setting is
	// wrong, so that trying again does not help.
	ErrConfiguration = errors.New("wrong Redis configuration")
	// ErrFull means that Redis has reached maxmemory; nothing was stored.
	ErrFull = errors.New("no room in Redis: raise maxmemory, and keep maxmemory-policy noeviction")
)

// classify turns an error of the client library into one of the above, where it
// is one of these. Anything else is an answer by which the server has refused
// for now: LOADING, READONLY, BUSY, CLUSTERDOWN and their like.
func classify(err error) error {
	var answer redis.Error
	var network *net.OpError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &answer):
		text := answer.Error()
		for _, wrong := range []string{"WRONGPASS", "NOAUTH", "NOPERM", "ERR invalid password", "ERR DB index"} {
			if strings.HasPrefix(text, wrong) {
				return fmt.Errorf("%w: %w", ErrConfiguration, err)
			}
		}
		if strings.HasPrefix(text, "OOM") || strings.Contains(text, "OOM command not allowed") {
			return fmt.Errorf("%w: %w", ErrFull, err)
		}
		return err
	case errors.As(err, &network) && network.Op == "dial":
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	case errors.Is(err, redis.ErrClosed):
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", ErrUnconfirmed, err)
	}
	return fmt.Errorf("%w: %w", ErrUnconfirmed, err)
}
