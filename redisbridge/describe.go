package redisbridge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/topology"
)

// Description is what 'delaybridge get -o json' prints of a message, and what the command get is
// answered with over AMQP. Instants are zero where they are unknown.
type Description struct {
	ID string `json:"id"`
	// Messages is how many have the ID, if there are several.
	Messages int `json:"messages,omitempty"`
	// State is a [State], or StateUnknown.
	State State `json:"state"`
	// Where says it in words.
	Where       string       `json:"where"`
	Key         *string      `json:"key,omitempty"` // nil where the message itself is gone
	Entry       string       `json:"entry,omitempty"`
	Path        message.Path `json:"path,omitempty"`
	Due         time.Time    `json:"due,omitzero"`
	PromoteAt   time.Time    `json:"promote_at,omitzero"`
	Attempts    *int         `json:"attempts,omitempty"` // nil where that is unknown
	Version     int          `json:"version,omitempty"`
	ContentType string       `json:"content_type,omitempty"`
	BodyBytes   *int         `json:"body_bytes,omitempty"` // nil where the message itself is gone
	// Handled is told by consumers that ask Redis about what comes.
	Handled []message.Handling `json:"handled,omitempty"`
	History []HistoryEvent     `json:"history"`
	// Error says why the message cannot be read, if it cannot.
	Error string `json:"error,omitempty"`
}

// HistoryEvent is something that is known to have happened to a message.
type HistoryEvent struct {
	At    time.Time `json:"at"`
	Event string    `json:"event"`
}

// StateUnknown is the state of a message of which Redis knows nothing.
const StateUnknown State = "unknown"

// DescribeUnknown returns the Description of a message of which Redis knows nothing.
func DescribeUnknown(id string) *Description {
	return &Description{
		ID: id, State: StateUnknown, History: []HistoryEvent{},
		Where: "nothing in Redis bears this ID: it is in a tier or in the inbox, was delivered and forgotten, or never was",
	}
}

// Describe says in the words of t where the message is, and what has happened to it. id is what it was
// looked up by.
func (e *MessageState) Describe(id string, t *topology.Topology) *Description {
	m := &Description{
		ID: id, State: e.State, Where: where(e, t), Path: e.Path, Version: e.Version,
		Due: e.Due.UTC(), PromoteAt: e.PromoteAt.UTC(), History: history(e),
	}
	if e.Messages > 1 {
		m.Messages = e.Messages
	}
	switch e.State {
	case StateParked, StatePromoting, StateInLane:
		m.Attempts = new(int) // no consumer has met it
	case StateDelivered:
		attempts := 1 // of which nothing is told unless it fails
		for _, h := range e.Handled {
			attempts = max(attempts, h.Attempts)
		}
		m.Attempts, m.Handled = &attempts, e.Handled
	default:
	}
	switch {
	case e.Unreadable != nil:
		m.Error = e.Unreadable.Error()
	case e.Path != "" && e.State != StateDelivered:
		size := len(e.Message.Body)
		m.Key, m.Entry, m.ContentType, m.BodyBytes = &e.Message.RoutingKey, e.Message.Entry, e.Message.ContentType, &size
	}
	return m
}

// where says in words where a message is.
func where(e *MessageState, t *topology.Topology) string {
	way := "the ready exchange"
	if e.Lane > 0 {
		way = t.LaneOf(e.Message.Entry, e.Lane, e.Shard)
	}
	switch e.State {
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
	case StateUnknown:
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

// history lists what has happened to a message, as far as its record tells.
func history(e *MessageState) []HistoryEvent {
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
