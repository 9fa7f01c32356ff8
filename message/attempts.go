package message

import (
	"maps"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/wire"
)

// Limits of what a message tells of the attempts to handle it. So that headers fit
// into their frame, the oldest lines are left out of a message whose own headers
// leave no room for them (wire.MaxHeaderBytes).
const (
	// maxHistory is how many lines Journey.History has at most; the oldest go first.
	maxHistory = 20
	// maxReasonBytes is how much of an error's first line a line of it holds.
	maxReasonBytes = 300
)

// headerCC is where a client names further routing keys. In the retry exchange they
// would lead to other queues.
const headerCC = "CC"

// Failed notes down that queue's consumer has handled the message in vain, why, and
// when by its clock. In another queue than before, attempts count anew.
func (j *Journey) Failed(queue string, at time.Time, err error) {
	if j.Queue != queue {
		j.Queue, j.Attempts = queue, 0
	}
	j.Attempts++
	j.note(at, queue+": "+firstLine(err.Error(), maxReasonBytes))
}

// Replayed notes down that the message was sent on from quarantine, after which its
// attempts count anew.
func (j *Journey) Replayed(at time.Time) {
	j.Attempts = 0
	j.note(at, "replayed from quarantine")
}

func (j *Journey) note(at time.Time, what string) {
	lines := append(slices.Clone(j.History), at.UTC().Format(wire.InstantLayout)+" "+what) // others may hold the old one
	j.History = lines[max(0, len(lines)-maxHistory):]
}

// firstLine is the first line of text, of at most that many bytes.
func firstLine(text string, most int) string {
	text, _, _ = strings.Cut(text, "\n")
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// Retry returns m as it waits for its next attempt, and as it is published to the
// retry exchange by the name of Journey.Queue: with what [FromDelivery] needs to give
// back the routing key, the CC header, when it was first published, its attempts and
// their history. m is left as it is.
func (m *Message) Retry() Message {
	retry := *m
	retry.Headers = make(amqp.Table, len(m.Headers)+8)
	maps.Copy(retry.Headers, m.Headers)
	if cc, ok := retry.Headers[headerCC]; ok {
		delete(retry.Headers, headerCC)
		retry.Headers[wire.HeaderCC] = cc
	}
	if !m.Journey.Published.IsZero() {
		retry.Headers[wire.HeaderPublished] = m.Journey.Published.UTC().Format(wire.InstantLayout)
	}
	retry.Headers[wire.HeaderKey] = m.RoutingKey
	m.Journey.Step.Write(retry.Headers)
	m.Journey.tell(retry.Headers)
	return retry
}

// RetryQueue returns the queue that m is to come back to, where [Message.Retry] has
// made it, and otherwise false. A publisher's own header does not arrive here: the
// bridge's names are reserved.
func (m *Message) RetryQueue() (queue string, ok bool) {
	queue, ok = m.Headers[wire.HeaderQueue].(string)
	return queue, ok
}

// tell writes down what j knows of attempts, as far as there is room.
func (j *Journey) tell(headers amqp.Table) {
	if j.Queue != "" {
		headers[wire.HeaderQueue] = j.Queue
	}
	if j.Attempts > 0 {
		headers[wire.HeaderAttempts] = int64(j.Attempts)
	}
	var lines []any
	headers[wire.HeaderHistory] = lines
	room := wire.MaxHeaderBytes - wire.TableBytes(headers)
	for _, line := range slices.Backward(j.History) {
		if room -= wire.ValueBytes(line); room < 0 {
			break
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		delete(headers, wire.HeaderHistory)
		return
	}
	slices.Reverse(lines)
	headers[wire.HeaderHistory] = lines
}

// recall is the opposite of tell. What the bridge does not write is a foreign
// client's doing and is dropped.
func (j *Journey) recall(headers amqp.Table) {
	if queue, ok := headers[wire.HeaderQueue].(string); ok && len(queue) <= 255 {
		j.Queue = queue
	}
	if attempts, ok := headers[wire.HeaderAttempts].(int64); ok && attempts > 0 {
		j.Attempts = int(min(attempts, maxAttempts))
	}
	if lines, ok := texts(headers[wire.HeaderHistory]); ok {
		j.History = lines[max(0, len(lines)-maxHistory):]
	}
}

// maxAttempts is more than anybody makes, and fits into every int.
const maxAttempts = 1<<31 - 1

// takeBack undoes the rest of Retry for a message that came through the retry
// exchange, in which the routing key is the queue's name.
func (m *Message) takeBack(headers amqp.Table) {
	if queue, ok := headers[wire.HeaderQueue].(string); !ok || queue != m.RoutingKey {
		return
	}
	key, ok := headers[wire.HeaderKey].(string)
	if !ok || len(key) > maxRoutingKeyBytes {
		return
	}
	m.RoutingKey = key
	if _, ok := texts(headers[wire.HeaderCC]); ok { // the broker closes the channel over anything else
		if m.Headers == nil {
			m.Headers = amqp.Table{}
		}
		m.Headers[headerCC] = headers[wire.HeaderCC]
	}
}

// texts returns value where it is an array of nothing but texts.
func texts(value any) ([]string, bool) {
	array, ok := value.([]any)
	if !ok {
		return nil, false
	}
	all := make([]string, len(array))
	for i, element := range array {
		if all[i], ok = element.(string); !ok {
			return nil, false
		}
	}
	return all, true
}
