package redisbridge

import (
	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/server"
)

// Errors that callers branch on.
var (
	// ErrUnconfirmed means that it is unknown whether Redis has the message:
	// the connection ended, or the caller stopped waiting, before the answer.
	// Parking again with the same ID is safe.
	ErrUnconfirmed = server.ErrUnconfirmed
	// ErrUnreachable means that there is no connection to Redis, or that what accepts it does
	// not answer: nothing was sent that changes anything.
	ErrUnreachable = server.ErrUnreachable
	// ErrConfiguration means that the password, a permission or a setting is
	// wrong, so that trying again does not help.
	ErrConfiguration = server.ErrConfiguration
	// ErrNotFound means that Redis knows no message with this ID: it may be in a tier or in the
	// inbox, may have been delivered and forgotten, or may never have been.
	ErrNotFound = store.ErrNotFound
	// ErrInvalid means that an argument is out of bounds, as the text says.
	ErrInvalid = store.ErrInvalid
	// ErrFull means that Redis has reached maxmemory; nothing was stored.
	ErrFull = server.ErrFull
	// ErrQuota means that the message's entry has no room for it; nothing was stored. It comes
	// with ErrInvalid where the message itself is over: see [Quota].
	ErrQuota = store.ErrQuota
	// ErrResharding means that something cannot be done while the number of shards changes.
	ErrResharding = store.ErrResharding
	// ErrForeign means that the prefix in Redis is another installation's: what is parked
	// there comes out of another virtual host, or of another cluster. It comes with
	// ErrConfiguration.
	ErrForeign = store.ErrForeign
)
