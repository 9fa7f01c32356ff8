package roles

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/internal/fault/shop"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// desk is what the consumer asks about what comes, and gives what is to be tried
// again.
type desk struct {
	*player
	park *redisbridge.Park

	mu     sync.Mutex
	asking map[string][]int64 // when it began to ask, by the order of a message that has not been received
}

// receiving writes down what comes, before the handler and its ledger.
func (d *desk) receiving(next consumer.Handler) consumer.Handler {
	return consumer.HandlerFunc(func(ctx context.Context, m message.Message) error {
		if string(m.Body) == shop.Greeting {
			return nil
		}
		d.received(m)
		return next.Handle(withAttempt(ctx, &m), m)
	})
}

func (d *desk) Arrive(ctx context.Context, m *message.Message) (message.Arrival, error) {
	began := history.Now()
	d.mu.Lock()
	order := shop.OrderOf(m.Body)
	d.asking[order] = append(d.asking[order], began)
	d.mu.Unlock()
	arrival, err := d.park.Arrive(ctx, m)
	if err != nil || arrival.Because() != "" {
		d.asked(order)
	}
	order = d.names(order)
	switch {
	case err != nil:
	case arrival.Cancelled:
		d.note(history.Event{Kind: history.Dropped, Order: order, Detail: history.DroppedCancelled})
	case arrival.Rescheduled:
		d.note(history.Event{Kind: history.Dropped, Order: order, Detail: history.DroppedRescheduled})
	default:
		d.step(StepArrived)
	}
	return arrival, err
}

// asked returns when the consumer first began to ask about a message of this order of which
// that was not returned before. Of two copies at the same time it is that of the other one,
// which is earlier.
func (d *desk) asked(order string) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	times := d.asking[order]
	if len(times) == 0 {
		return 0
	}
	if d.asking[order] = times[1:]; len(times) == 1 {
		delete(d.asking, order)
	}
	return times[0]
}

func (d *desk) Handled(ctx context.Context, m *message.Message, h message.Handling) error {
	return d.park.Handled(ctx, m, h)
}

func (d *desk) Delay(ctx context.Context, m *message.Message, pause time.Duration) error {
	err := d.park.Delay(ctx, m, pause)
	if err == nil {
		d.step(StepDelayed)
	}
	return err
}

func (d *desk) received(m message.Message) {
	order := shop.OrderOf(m.Body)
	e := history.Event{At: history.Now(), Kind: history.Received, Order: d.names(order), Attempt: m.Journey.Attempts, Asked: d.asked(order)}
	if m.ID != order {
		e.ID = m.ID
	}
	// On other paths the due time is by the clock of the publisher, which may be wrong.
	if strings.HasPrefix(string(m.Journey.Path), string(message.PathParked)) {
		e.Due = m.Journey.Due.UnixMilli()
	}
	if n, ok := shop.OrderNumber(order); ok {
		o := shop.PlanOrder(d.Seed, n)
		e.Intact = o.Intact(m)
	}
	if !e.Intact {
		d.log.Error("not what was sent", "message", m)
	}
	d.note(e)
	d.step(StepReceived)
}
