package consumer

import (
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// order has messages of one key wait for each other. It outlives sessions, as
// handlers do.
type order struct {
	mu    sync.Mutex
	lines map[string][]turn // of the keys that are at work; who waits behind
}

// turn is a message that waits for the one before it.
type turn struct {
	session *session
	held    *held
}

// enter reports whether nothing of the key is at work, which from then on it is.
// Otherwise leave returns t when its turn has come.
func (o *order) enter(key string, t turn) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	line, busy := o.lines[key]
	switch {
	case busy:
		o.lines[key] = append(line, t)
	case o.lines == nil:
		o.lines = map[string][]turn{key: nil}
	default:
		o.lines[key] = nil
	}
	return !busy
}

// leave returns the next of the key, or false where nothing is at work any more.
func (o *order) leave(key string) (next turn, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	line := o.lines[key]
	if len(line) == 0 {
		delete(o.lines, key)
		return turn{}, false
	}
	o.lines[key] = line[1:]
	return line[0], true
}

// keyOf returns what Config.OrderBy says of a message. One over which that panics has
// no order; the handler will meet it.
func (s *session) keyOf(d *amqp.Delivery) (key string) {
	if s.config.OrderBy == nil {
		return ""
	}
	m := s.config.Topology.Message(d)
	defer func() {
		if value := recover(); value != nil {
			s.log.Error("OrderBy panicked; the message is handled without order", "id", m.ID, "value", value)
		}
	}()
	return s.config.OrderBy(m)
}

// letOthersIn handles those that have come to wait for the key, one after the other.
func (s *session) letOthersIn(key string) {
	for key != "" {
		next, ok := s.order.leave(key)
		if !ok {
			return
		}
		if next.session.takeSlot(next.held) {
			next.session.handle(next.held)
		} else {
			_ = next.session.giveBack(next.held) // where the channel is lost, the broker has done so
		}
	}
}
