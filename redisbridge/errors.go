package redisbridge

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/broker"
)

// Errors that callers branch on.
var (
	// ErrUnconfirmed means that it is unknown whether Redis has the message:
	// the connection ended, or the caller stopped waiting, before the answer.
	// Parking again with the same ID is safe.
	ErrUnconfirmed = broker.ErrUnconfirmed
	// ErrUnreachable means that there is no connection to Redis; nothing was sent.
	ErrUnreachable = errors.New("cannot reach Redis; is it running, and is the address right?")
	// ErrConfiguration means that the password, a permission or a setting is
	// wrong, so that trying again does not help.
	ErrConfiguration = errors.New("wrong Redis configuration")
	// ErrNotFound means that Redis knows no message with this ID: it may be in a tier or in the
	// inbox, may have been delivered and forgotten, or may never have been.
	ErrNotFound = errors.New("no message with this ID is known")
	// ErrInvalid means that an argument is out of bounds, as the text says.
	ErrInvalid = errors.New("invalid")
	// ErrBusy means that all connections of the client's pool to Redis were in use for as
	// long as a call may wait for one; nothing was sent. Redis itself may be well: make
	// pool_size in its URL larger, or call from fewer goroutines.
	ErrBusy = errors.New("all connections of the pool to Redis are in use; use a larger pool_size in its URL, or fewer calls at a time")
	// ErrFull means that Redis has reached maxmemory; nothing was stored.
	ErrFull = errors.New("no room in Redis: raise maxmemory, and keep maxmemory-policy noeviction")
)

// classify turns an error of the client library into one of the above, where it
// is one of these. What stays as it is was refused for now: nothing was done.
//
// Every command was sent once: see [NewClient].
func classify(err error) error {
	var answer redis.Error
	var network *net.OpError
	switch {
	case err == nil, errors.Is(err, redis.ErrClosed):
		return err
	case errors.Is(err, redis.Nil) && !errors.As(err, &network): // every Sentinel has said so
		return fmt.Errorf("%w: Sentinel knows no master_name like that of the URL: %w", ErrConfiguration, err)
	case errors.As(err, &answer) && !errors.Is(err, redis.Nil):
		return classifyAnswer(err, answer.Error())
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return fmt.Errorf("%w: %w", ErrBusy, err)
	case errors.As(err, &network) && network.Op == "dial":
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return fmt.Errorf("%w: %w", ErrUnconfirmed, err)
}

func classifyAnswer(err error, text string) error {
	if beginsWith(text, "ERR Error compiling script") {
		return fmt.Errorf("%w: Redis is too old for the scripts: use Redis 7, Valkey 8, or a newer one: %w", ErrConfiguration, err)
	}
	if isMistake(text) {
		err = fmt.Errorf("%w: %w", ErrConfiguration, err)
		if !strings.Contains(text, duringScript) {
			return err
		}
	}
	switch {
	case strings.HasPrefix(text, "OOM "):
		return fmt.Errorf("%w: %w", ErrFull, err)
	case isRefusal(text):
		return err
	}
	// A script has stopped half-way, perhaps after it had written something.
	return fmt.Errorf("%w: %w", ErrUnconfirmed, err)
}

// duringScript is in the answer where a command of a script has failed.
const duringScript = " script: "

// isMistake recognises the answers that only a person can change.
func isMistake(text string) bool {
	return beginsWith(text, "WRONGPASS ", "NOAUTH ", "NOPERM ", "ERR invalid password", "ERR DB index",
		"ERR unknown command", "ERR This instance has cluster support disabled", // the URL is of another layout
		"ERR The user executing the script") // how Redis 7.0 says NOPERM
}

// isRefusal recognises the answers by which a server refuses for now, or sends
// elsewhere. They are definite: the server looks for such a state before a
// script runs, or at its first write. A script that has written is not refused
// any more, and SCRIPT KILL cannot end it.
func isRefusal(text string) bool {
	return beginsWith(text, "LOADING ", "READONLY ", "BUSY ", "MASTERDOWN ", "NOREPLICAS ", "MISCONF ",
		"CLUSTERDOWN ", "TRYAGAIN ", "MOVED ", "ASK ", "NOSCRIPT ", "ERR max number of clients reached")
}

func beginsWith(text string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(text, prefix) })
}
