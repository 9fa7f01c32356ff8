package consumer

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/consumer/internal/outage"
	"github.com/delaybridge/delaybridge/consumer/ledger"
	"github.com/delaybridge/delaybridge/message"
)

// errDuplicate is how a handler with a ledger says that there was nothing to do.
var errDuplicate = errors.New("the message has had its effect already")

// once is a handler before which a ledger stands.
type once struct {
	Handler
	ledger ledger.Ledger
	queue  string
	log    *slog.Logger
}

// Handle has the handler handle m, unless a message with m's ID from this queue has
// been handled with success.
func (o *once) Handle(ctx context.Context, m message.Message) error {
	if m.ID == "" {
		return Reject(errors.New("the message has no ID by which the ledger would know it again: its publisher must set message-id"))
	}
	began := false
	first, err := o.ledger.Once(ctx, ledgerKey(o.queue, m.ID), func(ctx context.Context) error {
		began = true
		return o.Handler.Handle(ctx, m)
	})
	switch {
	case err == nil && !first:
		o.log.Info("a duplicate was left without effect", "id", m.ID)
		return errDuplicate
	case err != nil && first:
		o.log.Warn("a message was handled, and perhaps not marked; a duplicate would be handled again", "id", m.ID, "error", err)
		return nil
	}
	if err != nil && !began {
		return &notBegunError{err}
	}
	return err
}

// ledgerKey returns the key of a message. The first slash ends the name of a queue that
// has none, as it always did. A queue with a slash in its name has a key that starts with
// one and tells the name's length in a byte: this is the shortest form that no other
// queue and ID can have, and the longest such key is ledger.MaxKeyBytes.
func ledgerKey(queue, id string) string {
	if !strings.Contains(queue, "/") {
		return queue + "/" + id
	}
	return "/" + string([]byte{byte(len(queue))}) + queue + id //nolint:gosec // New has checked that it is at most maxName
}

// notBegunError is how a handler with a ledger says that it was not called: the ledger is
// busy with the message, or cannot be reached. That was no attempt.
type notBegunError struct{ error }

func (e *notBegunError) Unwrap() error { return e.error }

// maxLedgerPause is the longest pause between two questions to a ledger that cannot be
// reached, and so how late its return is noticed.
const maxLedgerPause = 10 * time.Second

// awaitLedger waits before the ledger is asked again, without a slot, and takes one. It
// returns Returned when it is no longer this consumer that will handle the message, or "".
func (s *session) awaitLedger(h *held, w *outage.Wait, id string, why *notBegunError) Outcome {
	var pause time.Duration
	if errors.Is(why, ledger.ErrBusy) {
		pause = w.Busy(s.log, id, why)
	} else {
		pause = w.Failed(s.log, id, why)
	}
	if !s.idle(h, pause) || !s.takeSlot(h) {
		return Returned
	}
	return ""
}

// errOnlyAsked keeps a question to the ledger from leaving a mark.
var errOnlyAsked = errors.New("the ledger was only asked whether it answers")

// askLedger returns nil where the ledger answers about a message.
func (s *session) askLedger(ctx context.Context, id string) error {
	began := false
	_, err := s.config.Ledger.Once(ctx, ledgerKey(s.config.Queue, id), func(context.Context) error {
		began = true
		return errOnlyAsked
	})
	if began || errors.Is(err, ledger.ErrBusy) {
		return nil
	}
	return err
}
