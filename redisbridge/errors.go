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
	// ErrUnreachable means that there is no connection to Redis; nothing was sent.
	ErrUnreachable = server.ErrUnreachable
	// ErrConfiguration means that the password, a permission or a setting is
	// wrong, so that trying again does not help.
	ErrConfiguration = server.ErrConfiguration
	// ErrNotFound means that Redis knows no message with this ID: it may be in a tier or in the
	// inbox, may have been delivered and forgotten, or may never have been.
	ErrNotFound = store.ErrNotFound
	// ErrInvalid means that an argument is out of bounds, as the text says.
	ErrInvalid = store.ErrInvalid
	// ErrBusy means that all connections of the client's pool to Redis were in use for as
	// long as a call may wait for one; nothing was sent. Redis itself may be well: make
	// pool_size in its URL larger, or call from fewer goroutines.
	ErrBusy = server.ErrBusy
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
