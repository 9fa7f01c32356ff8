// Package once has each message of a queue take effect once, whatever is delivered again: a
// ledger remembers which IDs were handled. It tells apart what the handler has returned, and
// that the handler was not called.
package once

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/delaybridge/delaybridge/consumer/ledger"
)

// What [Ledger.Do] returns where effect was not called, beside a [NotBegunError].
var (
	// ErrDuplicate: there was nothing to do.
	ErrDuplicate = errors.New("the message has had its effect already")
	// ErrNoID: the ledger cannot tell the message from others.
	ErrNoID = errors.New("the message has no ID by which the ledger would know it again: its publisher must set message-id")
)

// NotBegunError says that effect was not called: the ledger is busy with the message, or
// cannot be reached. That was no attempt.
type NotBegunError struct{ error }

// Unwrap returns what the ledger has returned.
func (e *NotBegunError) Unwrap() error { return e.error }

// Ledger is a ledger as the consumer of one queue uses it.
type Ledger struct {
	Marks  ledger.Ledger
	Queue  string // at most 255 bytes
	Logger *slog.Logger
}

// Do calls effect, and returns what that returns, unless effect has returned nil for a
// message with this ID from this queue.
func (l *Ledger) Do(ctx context.Context, id string, effect func(context.Context) error) error {
	if id == "" {
		return ErrNoID
	}
	began := false
	first, err := l.Marks.Once(ctx, Key(l.Queue, id), func(ctx context.Context) error {
		began = true
		return effect(ctx)
	})
	switch {
	case err == nil && !first:
		l.Logger.Info("a duplicate was left without effect", "id", id)
		return ErrDuplicate
	case err != nil && first:
		l.Logger.Warn("a message was handled, and perhaps not marked; a duplicate would be handled again", "id", id, "error", err)
		return nil
	}
	if err != nil && !began {
		return &NotBegunError{err}
	}
	return err
}

// errOnlyAsked keeps a question to the ledger from leaving a mark.
var errOnlyAsked = errors.New("the ledger was only asked whether it answers")

// Ask returns nil where the ledger answers about a message. It leaves no mark.
func (l *Ledger) Ask(ctx context.Context, id string) error {
	began := false
	_, err := l.Marks.Once(ctx, Key(l.Queue, id), func(context.Context) error {
		began = true
		return errOnlyAsked
	})
	if began || errors.Is(err, ledger.ErrBusy) {
		return nil
	}
	return err
}

// Key returns the key of a message. The first slash ends the name of a queue that
// has none, as it always did. A queue with a slash in its name has a key that starts with
// one and tells the name's length in a byte: this is the shortest form that no other
// queue and ID can have, and the longest such key is ledger.MaxKeyBytes.
func Key(queue, id string) string {
	if !strings.Contains(queue, "/") {
		return queue + "/" + id
	}
	return "/" + string([]byte{byte(len(queue))}) + queue + id //nolint:gosec // AMQP allows no name of more than 255 bytes
}
