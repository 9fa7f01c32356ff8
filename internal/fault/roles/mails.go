package roles

import (
	"context"
	"strings"

	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/internal/fault/shop"
	"github.com/delaybridge/delaybridge/message"
)

// mails is where the consumer of shop.MailQueue sends mails.
type mails struct {
	*player
	boxes *shop.Mailboxes
}

// Once implements [ledger.Ledger] by that of the order's database, and writes down what came
// of it.
func (m *mails) Once(ctx context.Context, key string, effect func(context.Context) error) (first bool, err error) {
	_, order, _ := strings.Cut(key, "/")
	handled := false
	first, err = m.boxes.Of(order).Once(ctx, key, func(ctx context.Context) error {
		err := effect(ctx)
		handled = err == nil
		return err
	})
	switch {
	case first && err == nil:
		m.note(history.Event{Kind: history.Effect, Order: m.names(order), Detail: history.EffectClosed})
	case err == nil: // the process that committed it may have been killed before it could say so
		m.note(history.Event{Kind: history.Effect, Order: m.names(order), Detail: history.EffectAlreadyClosed})
	case !first && handled: // and the transaction was not committed
		m.note(history.Event{Kind: history.Failed, Order: m.names(order), Attempt: attemptOf(ctx), Detail: err.Error()})
	}
	return first, err
}

// send is the handler of shop.MailQueue.
func (m *mails) send(ctx context.Context, msg message.Message) error {
	if err := m.boxes.Of(msg.ID).Send(ctx, msg.ID); err != nil {
		return err
	}
	m.step(StepEffect) // before the transaction is committed
	return nil
}

type attemptKey struct{}

// withAttempt lets the ledger know how often a message was handled before.
func withAttempt(ctx context.Context, m *message.Message) context.Context {
	return context.WithValue(ctx, attemptKey{}, m.Journey.Attempts)
}

func attemptOf(ctx context.Context) int {
	n, _ := ctx.Value(attemptKey{}).(int)
	return n
}
