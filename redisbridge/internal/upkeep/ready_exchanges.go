package upkeep

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/topology"
)

// thereFor is how long a ready exchange is taken to be there, once it was.
const thereFor = time.Minute

// ReadyExchanges knows which entries have a ready exchange. A bridge learns of entries
// from the messages: one that is added needs no restart. Before it publishes the
// first message of an entry it looks, since publishing to an exchange that is not
// there costs everything that is under way on the channel; and a lane would hand
// the message over to the default ready exchange.
type ReadyExchanges struct {
	topology *topology.Topology
	conn     *broker.Conn
	repairs  *Repairs

	mu    sync.Mutex
	there map[string]time.Time // entries, until when not to look again
}

// NewReadyExchanges does no I/O.
func NewReadyExchanges(t *topology.Topology, conn *broker.Conn, repairs *Repairs) *ReadyExchanges {
	return &ReadyExchanges{topology: t, conn: conn, repairs: repairs, there: map[string]time.Time{}}
}

// Has reports whether the entry's ready exchange was there of late. The default
// one is taken for granted.
func (r *ReadyExchanges) Has(entry string) bool {
	if entry == "" {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.there[entry])
}

// Look asks the broker for an entry's ready exchange. It reports false, and asks
// for a repair where that may help, if there is none.
func (r *ReadyExchanges) Look(ctx context.Context, entry string) (bool, error) {
	if r.Has(entry) {
		return true, nil
	}
	ch, err := r.conn.Channel(ctx)
	if err != nil {
		return false, err
	}
	exchange := r.topology.ReadyExchangeOf(entry)
	// Of a passive declaration the broker looks at the name alone.
	err = broker.Classify(ch.ExchangeDeclarePassive(exchange, amqp.ExchangeFanout, true, false, false, false, nil))
	switch {
	case errors.Is(err, broker.ErrMissing):
		if r.topology.HasEntry(entry) {
			r.repairs.Consider(err)
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

// Forget has the next message look again, after err.
func (r *ReadyExchanges) Forget(err error) {
	if _, missing := broker.MissingExchange(err); missing {
		r.mu.Lock()
		defer r.mu.Unlock()
		clear(r.there)
	}
}
