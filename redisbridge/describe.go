package redisbridge

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/message"
)

// HistoryEvent is something that is known to have happened to a message.
type HistoryEvent struct {
	At    time.Time `json:"at"`
	Event string    `json:"event"`
}

// MarshalJSON writes what 'delaybridge get -o json' prints of a message, and what the command get is
// answered with over AMQP. The state of the zero value is unknown.
func (e MessageState) MarshalJSON() ([]byte, error) {
	m := struct {
		ID          string             `json:"id"`
		Messages    int                `json:"messages,omitempty"`
		State       State              `json:"state"`
		Where       string             `json:"where"`
		Key         *string            `json:"key,omitempty"` // nil where the message itself is gone
		Entry       string             `json:"entry,omitempty"`
		Path        message.Path       `json:"path,omitempty"`
		Due         time.Time          `json:"due,omitzero"`
		PromoteAt   time.Time          `json:"promote_at,omitzero"`
		Attempts    *int               `json:"attempts,omitempty"` // nil where that is unknown
		Version     int                `json:"version,omitempty"`
		ContentType string             `json:"content_type,omitempty"`
		BodyBytes   *int               `json:"body_bytes,omitempty"` // nil where the message itself is gone
		Handled     []message.Handling `json:"handled,omitempty"`
		History     []HistoryEvent     `json:"history"`
		Error       string             `json:"error,omitempty"`
	}{
		ID: e.ID, State: cmp.Or(e.State, "unknown"), Where: e.Where(), Path: e.Path, Version: e.Version,
		Due: e.Due.UTC(), PromoteAt: e.PromoteAt.UTC(), Handled: e.Handled, History: e.History(),
	}
	if e.Messages > 1 {
		m.Messages = e.Messages
	}
	if attempts, known := e.Attempts(); known {
		m.Attempts = &attempts
	}
	switch {
	case e.Unreadable != nil:
		m.Error = e.Unreadable.Error()
	case e.HasMessage():
		size := len(e.Message.Body)
		m.Key, m.Entry, m.ContentType, m.BodyBytes = &e.Message.RoutingKey, e.Message.Entry, e.Message.ContentType, &size
	}
	return json.Marshal(m)
}

// HasMessage reports whether Message is the message itself: it is not gone, and can be read.
func (e *MessageState) HasMessage() bool {
	return e.Unreadable == nil && e.Path != "" && e.State != StateDelivered
}

// Attempts is how often consumers have handled the message, at least, and false where that is not known.
func (e *MessageState) Attempts() (n int, known bool) {
	switch e.State {
	case StateParked, StatePromoting, StateInLane:
		return 0, true // no consumer has met it
	case StateDelivered:
		n = 1 // of which nothing is told unless it fails
		for _, h := range e.Handled {
			n = max(n, h.Attempts)
		}
		return n, true
	default:
		return 0, false
	}
}

// Where says State in words, with the shard, and the lane or queue.
func (e *MessageState) Where() string {
	way := "the ready exchange"
	if e.Lane > 0 && e.topology != nil {
		way = e.topology.LaneOf(e.Message.Entry, e.Lane, e.Shard)
	}
	switch e.State {
	case "":
		return "nothing in Redis bears this ID: it is in a tier or in the inbox, was delivered and forgotten, or never was"
	case StateParked:
		return fmt.Sprintf("in Redis, shard %d, until it is promoted to %s", e.Shard, way)
	case StatePromoting:
		return fmt.Sprintf("in Redis, shard %d: a bridge is publishing it to %s", e.Shard, way)
	case StateInLane:
		return "with the broker, in " + way
	case StateDue:
		return "with the broker, or delivered: no consumer has told Redis that it came"
	case StateCancelled:
		return "nowhere: it was cancelled; if a copy comes, its consumer drops it"
	case StateDelivered:
		return whereHandled(e)
	case StateMoved:
		return "out of Redis' sight: when it comes before its new due time, its consumer parks it again"
	}
	return string(e.State)
}

// whereHandled goes by what a consumer has told last.
func whereHandled(e *MessageState) string {
	if len(e.Handled) == 0 {
		return "delivered: a consumer has it, or is done with it"
	}
	switch h := e.Handled[0]; h.Outcome {
	case "delayed":
		return fmt.Sprintf("in Redis for its next attempt in queue %s at %s, unless that is over", h.Queue, instantText(h.RetryAt))
	case "quarantined":
		return fmt.Sprintf("in quarantine, out of queue %s: see: delaybridge quarantine show %s", h.Queue, printable.Shell(e.ID))
	default:
		return fmt.Sprintf("delivered, and %s from queue %s", h.Outcome, h.Queue)
	}
}

// History lists what has happened to the message, as far as Redis knows.
func (e *MessageState) History() []HistoryEvent {
	events := []HistoryEvent{}
	add := func(at time.Time, event string) {
		if !at.IsZero() {
			events = append(events, HistoryEvent{at.UTC(), event})
		}
	}
	add(e.Published, "published")
	add(e.Rescheduled, "rescheduled")
	switch e.State {
	case StateCancelled:
		add(e.Ended, "cancelled")
	case StateDelivered:
		add(e.Ended, "delivered")
		for _, h := range slices.Backward(e.Handled) {
			for _, line := range h.History {
				instant, what, _ := strings.Cut(line, " ")
				if at, err := time.Parse(time.RFC3339, instant); err == nil {
					add(at, "failed in "+what)
				}
			}
			add(h.At, fmt.Sprintf("%s in %s after %s", h.Outcome, h.Queue, attemptsText(h.Attempts)))
		}
	default:
	}
	slices.SortStableFunc(events, func(a, b HistoryEvent) int { return a.At.Compare(b.At) })
	return events
}

func attemptsText(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", n)
}

func instantText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}
