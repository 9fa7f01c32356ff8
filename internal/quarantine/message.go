package quarantine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/topology"
)

// Message is one message in quarantine. Its Journey says from which queue it comes,
// after how many attempts, and what came of each.
type Message struct {
	message.Message
	Error string    // why it is here
	Stack string    // of the handler's panic
	Since time.Time // zero if it was not noted

	expired     bool // in the inbox, before a bridge has read when it is due
	undecodable bool // some of its headers
}

// read returns the message of a delivery from quarantine. One that a consumer or a
// bridge has put there says why; what the broker has dead-lettered has only its
// x-death to tell, whatever its publisher says.
func read(t *topology.Topology, d *amqp.Delivery) *Message {
	m := &Message{Message: t.Message(d)}
	if deaths, _ := d.Headers["x-death"].([]any); len(deaths) > 0 {
		death, _ := deaths[0].(amqp.Table) // the latest comes first
		m.readDeath(t, death)
	} else {
		m.Error, _ = d.Headers[wire.HeaderError].(string)
		m.Stack, _ = d.Headers[wire.HeaderStack].(string)
		if text, ok := d.Headers[wire.HeaderQuarantined].(string); ok {
			m.Since, _ = time.Parse(time.RFC3339, text) // zero if it is no instant
		}
	}
	if reason := broker.Undecodable(d); reason != "" {
		m.undecodable = true
		m.Error = strings.TrimPrefix(m.Error+"; its headers cannot be decoded: "+reason, "; ")
	}
	if m.Journey.Queue != t.Command() && isOurs(t, m.Journey.Queue) {
		m.Journey.Queue = ""
	}
	return m
}

func (m *Message) readDeath(t *topology.Topology, death amqp.Table) {
	queue, _ := death["queue"].(string)
	reason, _ := death["reason"].(string)
	m.Error = fmt.Sprintf("dead-lettered by the broker from queue %s: %s", queue, reason)
	m.Since, _ = death["time"].(time.Time)
	m.Journey.Queue = queue
	m.expired = queue == t.Inbox() && reason == "expired"
}

// isOurs reports whether a queue belongs to the bridge, so that nothing is to come
// back to it.
func isOurs(t *topology.Topology, queue string) bool {
	return slices.ContainsFunc(t.Queues(), func(q topology.Queue) bool { return q.Name == queue })
}
