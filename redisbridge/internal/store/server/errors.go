package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/tlsurl"
)

// Errors that callers branch on; redisbridge says what they mean.
var (
	ErrUnconfirmed   = broker.ErrUnconfirmed
	ErrUnreachable   = errors.New("cannot reach Redis; is it running, and is the address right?")
	ErrConfiguration = errors.New("wrong Redis configuration")
	ErrBusy          = errors.New("all connections of the pool to Redis are in use; use a larger pool_size in its URL, or fewer calls at a time")
	ErrFull          = errors.New("no room in Redis: raise maxmemory, and keep maxmemory-policy noeviction")
)

// Classify turns an error of the client library into one of the above, where it
// is one of these. What stays as it is was refused for now: nothing was done.
//
// Every command was sent once: see [NewClient].
func Classify(err error) error {
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
	case errors.Is(err, tlsurl.ErrSettings):
		return fmt.Errorf("%w: %w", ErrConfiguration, err)
	case errors.As(err, &network) && network.Op == "dial":
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return fmt.Errorf("%w: %w", ErrUnconfirmed, err)
}

// ClassifyRead is Classify for what has changed nothing: there is nothing to be unsure of.
func ClassifyRead(err error) error {
	classified := Classify(err)
	var answer redis.Error
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case !errors.Is(classified, ErrUnconfirmed):
		return classified
	case errors.Is(classified, ErrConfiguration):
		return fmt.Errorf("%w: %w", ErrConfiguration, err)
	case errors.As(err, &answer) && !errors.Is(err, redis.Nil): // an answer, if not the one that was asked for
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
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
		"CLUSTERDOWN ", "TRYAGAIN ", "MOVED ", "ASK ", "NOSCRIPT ", Gone, NotYet, "ERR max number of clients reached")
}

func beginsWith(text string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(text, prefix) })
}

// Errors of scripts that are about an ID that is in another shard, or on its way there.
const (
	Gone   = "GONE "
	NotYet = "NOTYET "
)
