package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

func newGetCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get ID... | get -",
		Short: "Show where messages are now, and what is known of them",
		Long: `Shows of each message where it is, when it is due, which way it takes, and what has
happened to it. All of that is what Redis knows: a message that was published untracked
and went straight into a tier is unknown to it, as is one that was delivered and is
remembered no longer. Where several messages have the same ID, each is shown. Of its
attempts it knows from consumers that ask Redis about what comes, as consume does.

IDs are arguments or lines of standard input. The answers come in their order. The exit
code is 1 if one of them is unknown.`,
		Example: `  delaybridge get o-1
  delaybridge get o-1 o-2 -o json`,
		Args: idsArgs(a),
	}
	entry := entryFlag(cmd)
	format := outputFlag(cmd, formatTable, formatJSON, formatJSONL)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withPark(func(park *redisbridge.Park, c config) error {
			park, err := parkOf(park, c, *entry)
			if err != nil {
				return err
			}
			return a.get(cmd.Context(), *format, args, park, c.Topology)
		})
	}
	return cmd
}

func (a *app) get(ctx context.Context, format string, ids []string, park *redisbridge.Park, t *topology.Topology) error {
	out := &stream{out: a.out, format: format}
	asked, unknown := 0, 0
	var lost, failed error
	eachID(ctx, a, ids, park.GetAll, func(id string, all []redisbridge.MessageState, err error) bool {
		if err != nil {
			lost = err
			if !hopeless(err) {
				lost, failed = nil, errors.Join(failed, err)
			}
			return lost == nil
		}
		asked++
		if len(all) == 0 {
			unknown++
			m := unknownMessage(id)
			return out.add(m, m.table())
		}
		for i := range all {
			if m := found(id, &all[i], t); !out.add(m, m.table()) {
				return false
			}
		}
		return true
	})
	err := out.close()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case lost != nil, failed != nil:
		return errors.Join(lost, failed)
	case err != nil:
		return err
	case unknown > 0:
		a.noteLoss(ctx, park)
		return fmt.Errorf("%d of %d IDs are unknown", unknown, asked)
	}
	return nil
}

// foundMessage is what `get` prints for each ID.
type foundMessage struct {
	ID          string       `json:"id"`
	Messages    int          `json:"messages,omitempty"` // with this ID, if there are several
	State       string       `json:"state"`
	Where       string       `json:"where"`
	Key         *string      `json:"key,omitempty"`
	Entry       string       `json:"entry,omitempty"`
	Path        message.Path `json:"path,omitempty"`
	Due         time.Time    `json:"due,omitzero"`
	PromoteAt   time.Time    `json:"promote_at,omitzero"`
	Attempts    *int         `json:"attempts,omitempty"`
	Version     int          `json:"version,omitempty"`
	ContentType string       `json:"content_type,omitempty"`
	BodyBytes   *int         `json:"body_bytes,omitempty"`
	// Handled is told by consumers that ask Redis about what comes.
	Handled []message.Handling `json:"handled,omitempty"`
	History []historyEvent     `json:"history"`
	Error   string             `json:"error,omitempty"`
}

// historyEvent is one that is known of.
type historyEvent struct {
	At    time.Time `json:"at"`
	Event string    `json:"event"`
}

const stateUnknown = "unknown"

func unknownMessage(id string) *foundMessage {
	return &foundMessage{
		ID: id, State: stateUnknown, History: []historyEvent{},
		Where: "nothing in Redis bears this ID: it is in a tier or in the inbox, was delivered and forgotten, or never was",
	}
}

func found(id string, e *redisbridge.MessageState, t *topology.Topology) *foundMessage {
	m := &foundMessage{
		ID: id, State: string(e.State), Where: where(e, t), Path: e.Path, Version: e.Version,
		Due: e.Due.UTC(), PromoteAt: e.PromoteAt.UTC(), History: history(e),
	}
	if e.Messages > 1 {
		m.Messages = e.Messages
	}
	switch e.State {
	case redisbridge.StateParked, redisbridge.StatePromoting, redisbridge.StateInLane:
		m.Attempts = new(int) // no consumer has met it
	case redisbridge.StateDelivered:
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
	case e.Path != "" && e.State != redisbridge.StateDelivered:
		size := len(e.Message.Body)
		m.Key, m.Entry, m.ContentType, m.BodyBytes = &e.Message.RoutingKey, e.Message.Entry, e.Message.ContentType, &size
	}
	return m
}

// where says in words where a message is.
func where(e *redisbridge.MessageState, t *topology.Topology) string {
	way := "the ready exchange"
	if e.Lane > 0 {
		way = t.LaneOf(e.Message.Entry, e.Lane, e.Shard)
	}
	switch e.State {
	case redisbridge.StateParked:
		return fmt.Sprintf("in Redis, shard %d, until it is promoted to %s", e.Shard, way)
	case redisbridge.StatePromoting:
		return fmt.Sprintf("in Redis, shard %d: a bridge is publishing it to %s", e.Shard, way)
	case redisbridge.StateInLane:
		return "with the broker, in " + way
	case redisbridge.StateDue:
		return "with the broker, or delivered: no consumer has told Redis that it came"
	case redisbridge.StateCancelled:
		return "nowhere: it was cancelled; if a copy comes, its consumer drops it"
	case redisbridge.StateDelivered:
		return whereHandled(e)
	case redisbridge.StateMoved:
		return "out of Redis' sight: when it comes before its new due time, its consumer parks it again"
	}
	return string(e.State)
}

// whereHandled goes by what a consumer has told last.
func whereHandled(e *redisbridge.MessageState) string {
	if len(e.Handled) == 0 {
		return "delivered: a consumer has it, or is done with it"
	}
	switch h := e.Handled[0]; consumer.Outcome(h.Outcome) {
	case consumer.Delayed:
		return fmt.Sprintf("in Redis for its next attempt in queue %s at %s, unless that is over", h.Queue, instantText(h.RetryAt))
	case consumer.Quarantined:
		return fmt.Sprintf("in quarantine, out of queue %s: see 'delaybridge quarantine show %s'", h.Queue, e.ID)
	default:
		return fmt.Sprintf("delivered, and %s from queue %s", h.Outcome, h.Queue)
	}
}

// history lists what has happened to a message, as far as its record tells.
func history(e *redisbridge.MessageState) []historyEvent {
	events := []historyEvent{}
	add := func(at time.Time, event string) {
		if !at.IsZero() {
			events = append(events, historyEvent{at.UTC(), event})
		}
	}
	add(e.Published, "published")
	add(e.Rescheduled, "rescheduled")
	switch e.State {
	case redisbridge.StateCancelled:
		add(e.Ended, "cancelled")
	case redisbridge.StateDelivered:
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
	slices.SortStableFunc(events, func(a, b historyEvent) int { return a.At.Compare(b.At) })
	return events
}

func attemptsText(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", n)
}

// table is a block of lines.
func (m *foundMessage) table() string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(table, "%s\t%s\n", name, value)
		}
	}
	line("ID", printable(m.ID))
	if m.Messages > 0 {
		line("MESSAGES", fmt.Sprintf("%d with this ID", m.Messages))
	}
	line("STATE", m.State)
	line("WHERE", printable(m.Where))
	if !m.Due.IsZero() {
		line("DUE", instantText(m.Due))
	}
	line("PATH", string(m.Path))
	if !m.PromoteAt.IsZero() {
		line("PROMOTED AT", instantText(m.PromoteAt))
	}
	if m.Key != nil {
		line("KEY", printable(*m.Key))
		line("ENTRY", printable(m.Entry))
		line("BODY", strings.TrimSpace(fmt.Sprintf("%d bytes %s", *m.BodyBytes, printable(m.ContentType))))
	}
	if m.Attempts != nil {
		line("ATTEMPTS", strconv.Itoa(*m.Attempts))
	}
	line("ERROR", printable(m.Error))
	for i, event := range m.History {
		name := ""
		if i == 0 {
			name = "HISTORY"
		}
		fmt.Fprintf(table, "%s\t%s  %s\n", name, instantText(event.At), printable(event.Event))
	}
	_ = table.Flush()
	return b.String()
}

// noteLoss says on standard error that Redis has lost messages of late, where it has: then
// that an ID is unknown says little.
func (a *app) noteLoss(ctx context.Context, park *redisbridge.Park) {
	loss, seen, err := park.Loss(ctx)
	if seen && err == nil {
		fmt.Fprintf(a.err, "delaybridge: Redis has lost messages that were parked: %s\n", loss)
	}
}
