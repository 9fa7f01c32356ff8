package redisbridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/message"
)

// thereFor is how long a ready exchange is taken to be there, once it was.
const thereFor = time.Minute

// readyExchanges knows which entries have a ready exchange. A bridge learns of entries
// from the messages: one that is added needs no restart. Before it publishes the
// first message of an entry it looks, since publishing to an exchange that is not
// there costs everything that is under way on the channel; and a lane would hand
// the message over to the default ready exchange.
type readyExchanges struct {
	b *Bridge

	mu    sync.Mutex
	there map[string]time.Time // entries, until when not to look again
}

func newReadyExchanges(b *Bridge) *readyExchanges {
	return &readyExchanges{b: b, there: map[string]time.Time{}}
}

// has reports whether the entry's ready exchange was there of late. The default
// one is taken for granted.
func (r *readyExchanges) has(entry string) bool {
	if entry == "" {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.there[entry])
}

// look asks the broker for an entry's ready exchange. It reports false, and asks
// for a repair where that may help, if there is none.
func (r *readyExchanges) look(ctx context.Context, entry string) (bool, error) {
	if r.has(entry) {
		return true, nil
	}
	ch, err := r.b.conn.Channel(ctx)
	if err != nil {
		return false, err
	}
	exchange := r.b.config.Topology.ReadyExchangeOf(entry)
	// Of a passive declaration the broker looks at the name alone.
	err = broker.Classify(ch.ExchangeDeclarePassive(exchange, amqp.ExchangeFanout, true, false, false, false, nil))
	switch {
	case errors.Is(err, broker.ErrMissing):
		if r.b.config.Topology.HasEntry(entry) {
			r.b.repairs.consider(err)
		}
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for exchange %s: %w", exchange, err)
	}
	_ = ch.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.there[entry] = time.Now().Add(thereFor)
	return true, nil
}

// forget has the next message look again, after err.
func (r *readyExchanges) forget(err error) {
	if _, missing := broker.MissingExchange(err); missing {
		r.mu.Lock()
		defer r.mu.Unlock()
		clear(r.there)
	}
}

// pause is how long a message waits for its entry's ready exchange: shortly where
// it is about to be put back, and otherwise until the entry is configured.
func (r *readyExchanges) pause(entry string) time.Duration {
	if r.b.config.Topology.HasEntry(entry) {
		return refusedPause
	}
	return r.b.config.RepairEvery
}

// entryOf returns the entry that out was made for (see outgoing).
func entryOf(out broker.Outgoing) string {
	entry, _ := out.Publishing.Headers[message.HeaderEntry].(string)
	return entry
}

// expectReady reports whether the ready exchange that out ends in is there, and
// whether it had to wait for the answer. Where it is missing the shard does not
// ask again before the pause is over.
func (s *shard) expectReady(ctx context.Context, out broker.Outgoing) (there, waited bool, err error) {
	entry := entryOf(out)
	if s.b.readyExchanges.has(entry) || out.Exchange == s.b.config.Topology.RetryExchange() {
		return true, false, nil
	}
	exchange := s.b.config.Topology.ReadyExchangeOf(entry)
	if time.Now().Before(s.absent[exchange]) {
		return false, false, nil
	}
	there, err = s.b.readyExchanges.look(ctx, entry)
	if err == nil && !there {
		s.absent[exchange] = time.Now().Add(s.b.readyExchanges.pause(entry))
		s.b.log.Warn("messages wait for their entry's ready exchange, which is missing: put the entry back into the configuration and apply the topology",
			"shard", s.n, "entry", entry, "exchange", exchange)
	}
	return there, true, err
}
