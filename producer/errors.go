package producer

import (
	"errors"

	"github.com/delaybridge/delaybridge/internal/broker"
)

// Errors that callers of [Producer.Publish] branch on. Every error of Publish
// wraps one of the first seven.
var (
	// ErrUnconfirmed means that it is unknown whether the server has the
	// message: the connection or the context ended between sending and the
	// server's answer. Publish again with the same ID.
	ErrUnconfirmed = broker.ErrUnconfirmed
	// ErrNotSent means that no server has the message, for a reason that the
	// error names and that may pass.
	ErrNotSent = broker.ErrNotSent
	// ErrRefused means that the broker answered with basic.nack, for instance
	// because a queue is at its length limit. No server has the message, except where it was
	// due at once and leads to several queues: those that take it have it.
	ErrRefused = broker.ErrRefused
	// ErrUnroutable means that the queue of the message's tier is gone, so that
	// the broker has returned the message.
	ErrUnroutable = broker.ErrUnroutable
	// ErrConflict means that a message with the same ID and other content waits already,
	// so that no server has this one.
	ErrConflict = errors.New("another message with this ID waits")
	// ErrCancelled means that the ID was cancelled, so that no server has the message. The due
	// time of the receipt is that of the message that was cancelled, or zero.
	ErrCancelled = errors.New("the ID was cancelled before")
	// ErrInvalid means that the message or its delay breaks a limit. The error
	// names every fault.
	ErrInvalid = errors.New("invalid message")
)

// Causes that the errors of [Producer.Publish] and [Producer.Run] may wrap.
var (
	// ErrMissing means that an exchange does not exist.
	ErrMissing = broker.ErrMissing
	// ErrForbidden means that the user lacks a permission.
	ErrForbidden = broker.ErrForbidden
	// ErrUnreachable means that there was no connection for Config.GiveUpAfter.
	ErrUnreachable = broker.ErrUnreachable
	// ErrConfiguration means that the URL, or the user or virtual host that it
	// names, is wrong.
	ErrConfiguration = broker.ErrConfiguration
)
