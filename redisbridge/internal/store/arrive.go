package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/format"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/server"
)

// Answers of lua/arrive.lua.
const (
	answerDeliver     = 1
	answerCancelled   = 2
	answerRescheduled = 3
	answerParkAgain   = 4
)

// Arrive is redisbridge.Park.Arrive.
func (s *Store) Arrive(ctx context.Context, m *message.Message) (message.Arrival, error) {
	if m.ID == "" { // it cannot have been cancelled
		return message.Arrival{}, nil
	}
	if err := s.admit(ctx); err != nil {
		return message.Arrival{}, err
	}
	key := format.KeyOf(m.Entry, m.ID)
	published, due := format.UnixMS(m.Journey.Published), format.UnixMS(m.Journey.Due)
	digest := format.ContentAsSent(m)
	for {
		var answer []int64
		err := s.onShard(ctx, key, func(shard *Shard, _ format.Slot) (err error) {
			k := shard.keys
			answer, err = s.scripts.Arrive.Run(ctx, s.config.Client,
				[]string{k.Claimed, k.Envelopes, k.Kept},
				key, published, due, m.Journey.Version,
				s.config.Remember.Milliseconds(), s.config.Tombstones.Milliseconds(), s.config.Window.Milliseconds(),
				string(m.Journey.Path), format.OnItsWay(m).Milliseconds(), digest[:]).Int64Slice()
			return err
		})
		switch {
		case err != nil:
			return message.Arrival{}, server.Classify(err)
		case len(answer) == 1 && answer[0] == answerDeliver:
			return message.Arrival{}, nil
		case len(answer) == 2 && answer[0] == answerCancelled:
			return message.Arrival{Cancelled: true, At: InstantOf(answer[1])}, nil
		case len(answer) == 2 && answer[0] == answerRescheduled:
			return message.Arrival{Rescheduled: true, At: InstantOf(answer[1])}, nil
		case len(answer) != 2 || answer[0] != answerParkAgain:
			return message.Arrival{}, errors.Join(server.ErrUnconfirmed, fmt.Errorf("the answer %v of a script has no meaning", answer))
		}
		parked, err := s.repark(ctx, m)
		switch {
		case err != nil:
			return message.Arrival{}, err
		case parked:
			return message.Arrival{Rescheduled: true, At: InstantOf(answer[1])}, nil
		}
		if ctx.Err() != nil { // it was changed meanwhile: ask again
			return message.Arrival{}, ctx.Err()
		}
	}
}

// repark parks a message again that was rescheduled while Redis did not have it. It returns
// false where it is not to be parked (any more): it was parked, cancelled or handled
// meanwhile, or this is another message with its ID.
func (s *Store) repark(ctx context.Context, m *message.Message) (bool, error) {
	key := format.KeyOf(m.Entry, m.ID)
	digest := format.ContentAsSent(m)
	var parked bool
	var unreplicated error
	err := s.onShard(ctx, key, func(shard *Shard, slot format.Slot) (err error) {
		k := shard.keys
		args := append([]any{
			format.WakeChannel(s.config.Topology), k.Number, key, format.UnixMS(m.Journey.Published), m.Journey.Version, digest[:], format.AppendEnvelope(nil, m, m.ID), groupOf(m),
		}, s.leads...)
		called, late := s.run(ctx, k, s.scripts.Repark, []string{k.Schedule, k.State, k.Slot(slot), k.Envelopes, k.Kept}, args...)
		unreplicated = late
		parked, err = called.Bool()
		return err
	})
	return parked, errors.Join(server.Classify(err), unreplicated)
}

// maxLines is how many lines of a message's history are noted down for each queue.
const maxLines = 5

// Handled is redisbridge.Park.Handled.
func (s *Store) Handled(ctx context.Context, m *message.Message, h message.Handling) error {
	if m.ID == "" {
		return nil
	}
	key := format.KeyOf(m.Entry, m.ID)
	h.At, h.RetryAt = h.At.UTC().Truncate(time.Millisecond), h.RetryAt.UTC().Truncate(time.Millisecond)
	h.History = h.History[max(0, len(h.History)-maxLines):]
	note, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("note down the handling of message %s: %w", m.ID, err)
	}
	until := h.At
	if h.RetryAt.After(until) {
		until = h.RetryAt
	}
	err = s.onShard(ctx, key, func(shard *Shard, _ format.Slot) error {
		return s.scripts.Handled.Run(ctx, s.config.Client, []string{shard.keys.Envelopes, shard.keys.Kept},
			key, format.UnixMS(m.Journey.Published), url.QueryEscape(h.Queue), h.At.UnixMilli(), note, until.Add(s.config.Remember).UnixMilli()).Err()
	})
	if err != nil {
		return fmt.Errorf("note down the handling of message %s: %w", m.ID, server.Classify(err))
	}
	return nil
}
