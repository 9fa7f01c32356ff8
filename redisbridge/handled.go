package redisbridge

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/message"
)

// maxLines is how many lines of a message's history are noted down for each queue.
const maxLines = 5

// Handled notes down how far a consumer is with a message that it was told to handle by
// [Park.Arrive], for [Park.Get]: one note for each queue, and eight in all. It is kept
// for ParkConfig.Remember, from its retry on where there is to be one. A note of a queue
// gives way to a later one, in whatever order they come. A message that is not known, or
// not any more, is no error.
func (p *Park) Handled(ctx context.Context, m *message.Message, h message.Handling) error {
	if m.ID == "" {
		return nil
	}
	key := keyOf(m.Entry, m.ID)
	shard, _ := locate(key, len(p.keys))
	k := p.keys[shard]
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
	err = p.scripts.handled.Run(ctx, p.config.Client, []string{k.envelopes, k.kept},
		key, unixMS(m.Journey.Published), url.QueryEscape(h.Queue), h.At.UnixMilli(), note, until.Add(p.config.Remember).UnixMilli()).Err()
	if err != nil {
		return fmt.Errorf("note down the handling of message %s: %w", m.ID, classify(err))
	}
	return nil
}

// handlings returns what is noted down behind the head of a delivered message's record:
// its path, and a line for each queue, the last one first.
func handlings(notes string) (path message.Path, all []message.Handling) {
	for line := range strings.Lines(notes) {
		queue, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if queue == "" {
			path = message.Path(rest)
			continue
		}
		_, note, _ := strings.Cut(rest, "\t")
		var h message.Handling
		if json.Unmarshal([]byte(note), &h) == nil { // another release may write something else
			all = append(all, h)
		}
	}
	return path, all
}
