package redisbridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/message"
)

// Answers of lua/arrive.lua.
const (
	answerDeliver     = 1
	answerCancelled   = 2
	answerRescheduled = 3
	answerParkAgain   = 4
)

// Arrive says what a consumer is to do with a message that has come, and notes down
// that it was delivered: from then on it is too late to cancel it. A message that was
// rescheduled while it was out of Redis' reach is parked again here, before Arrive tells
// that it is to be dropped.
//
// Until Arrive has returned without an error the message must be neither handled nor
// acknowledged. Calling it again is harmless.
func (p *Park) Arrive(ctx context.Context, m *message.Message) (message.Arrival, error) {
	arrival, err := p.arrive(ctx, m)
	if err != nil {
		return message.Arrival{}, fmt.Errorf("arrival of message %s: %w", m.ID, err)
	}
	return arrival, nil
}

func (p *Park) arrive(ctx context.Context, m *message.Message) (message.Arrival, error) {
	if m.ID == "" { // it cannot have been cancelled
		return message.Arrival{Fate: message.Deliver}, nil
	}
	if err := p.check(ctx); err != nil {
		return message.Arrival{}, err
	}
	key := keyOf(m.Entry, m.ID)
	shard, _ := locate(key, len(p.keys))
	k := p.keys[shard]
	published, due := unixMS(m.Journey.Published), unixMS(m.Journey.Due)
	digest := contentAsSent(m)
	for {
		answer, err := p.scripts.arrive.Run(ctx, p.config.Client,
			[]string{k.claimed, k.envelopes, k.kept},
			key, published, due, m.Journey.Version,
			p.config.Remember.Milliseconds(), p.config.Tombstones.Milliseconds(), p.config.Window.Milliseconds(),
			string(m.Journey.Path), onItsWay(m).Milliseconds(), digest[:]).Int64Slice()
		switch {
		case err != nil:
			return message.Arrival{}, classify(err)
		case len(answer) == 1 && answer[0] == answerDeliver:
			return message.Arrival{Fate: message.Deliver}, nil
		case len(answer) == 2 && answer[0] == answerCancelled:
			return message.Arrival{Fate: message.DropCancelled, At: instantOf(answer[1])}, nil
		case len(answer) == 2 && answer[0] == answerRescheduled:
			return message.Arrival{Fate: message.DropRescheduled, At: instantOf(answer[1])}, nil
		case len(answer) != 2 || answer[0] != answerParkAgain:
			return message.Arrival{}, errors.Join(ErrUnconfirmed, fmt.Errorf("the answer %v of a script has no meaning", answer))
		}
		parked, err := p.repark(ctx, m)
		switch {
		case err != nil:
			return message.Arrival{}, err
		case parked:
			return message.Arrival{Fate: message.DropRescheduled, At: instantOf(answer[1])}, nil
		}
		if ctx.Err() != nil { // it was changed meanwhile: ask again
			return message.Arrival{}, ctx.Err()
		}
	}
}

// onItsWay returns for how long a message that has come has been on its way, at least: for as
// long as its delay, by what it says.
func onItsWay(m *message.Message) time.Duration {
	if j := &m.Journey; !j.Published.IsZero() && !j.Due.IsZero() {
		return max(0, j.Due.Sub(j.Published))
	}
	when, err := message.WhenFromHeaders(m.Headers, time.Now())
	if delay, relative := when.Relative(); err == nil && relative {
		return delay
	}
	return 0
}

// repark parks a message again that was rescheduled while Redis did not have it. It returns
// false where it is not to be parked (any more): it was parked, cancelled or handled
// meanwhile, or this is another message with its ID.
func (p *Park) repark(ctx context.Context, m *message.Message) (bool, error) {
	key := keyOf(m.Entry, m.ID)
	shard, slot := locate(key, len(p.keys))
	k := p.keys[shard]
	digest := contentAsSent(m)
	args := append([]any{
		wakeChannel(p.config.Topology), k.number, key, unixMS(m.Journey.Published), m.Journey.Version, digest[:], message.AppendEnvelope(nil, m, m.ID),
	}, p.leads...)
	parked, err := p.scripts.repark.Run(ctx, p.config.Client, []string{k.schedule, k.state, k.slot(slot), k.envelopes, k.kept}, args...).Bool()
	return parked, classify(err)
}

func unixMS(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
