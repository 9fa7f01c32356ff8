package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

func newCancelCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel ID... | cancel -",
		Short: "Cancel messages, and say of each whether that came in time",
		Long: `Cancels messages that are not delivered yet, wherever they are. One that is parked
leaves Redis. One that the broker has is dropped when it comes out, by a consumer that
asks Redis, as 'delaybridge consume' does. Cancelling again is harmless.

IDs are arguments or lines of standard input. The answers come in their order.

The exit code is 0 if every message was cancelled, by now or before, and 1 if one was
too late or unknown. A message that went straight into a tier is unknown to Redis:
that it will be dropped cannot be promised to a consumer that does not ask.`,
		Example: `  delaybridge cancel o-1 o-2
  delaybridge list --key order.unpaid -o jsonl | jq -r .id | delaybridge cancel - -o jsonl`,
		Args: idsArgs(a),
	}
	format := outputFlag(cmd, formatTable, formatJSON, formatJSONL)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withTracedPark(cmd.Context(), "cancel", func(park *redisbridge.Park, _ config) error {
			return a.changeEach(cmd.Context(), *format, args, cancelling(), park.Cancel)
		})
	}
	return cmd
}

// changing is what cancel and reschedule differ in.
type changing struct {
	done string                          // the outcome of what was asked for
	good func(redisbridge.Outcome) bool  // whether an outcome is as good as that
	text func(redisbridge.Change) string // the outcome in words
	// search looks for unknown messages in the tiers, where they have a new due time that
	// is less than reach away. Nil where there is no such thing.
	search func(ctx context.Context, ids []string) (redisbridge.Search, error)
	reach  time.Duration
}

func cancelling() changing {
	return changing{
		done: "cancelled",
		good: func(o redisbridge.Outcome) bool { return o == redisbridge.Done || o == redisbridge.WasCancelled },
		text: func(c redisbridge.Change) string {
			switch {
			case c.Outcome == redisbridge.Done:
				return "cancelled"
			case c.Outcome == redisbridge.WasCancelled:
				return "cancelled before, at " + instantText(c.At)
			case c.Outcome == redisbridge.WasDelivered:
				return "too late: delivered at " + instantText(c.At)
			case c.Due.IsZero():
				return "unknown: nothing in Redis bears this ID; a message with it that is in a tier is dropped by its consumer"
			case c.Due.After(c.At):
				return "unknown: it was rescheduled where Redis did not have it; when it comes, its consumer drops it"
			}
			return "unknown: it was due at " + instantText(c.Due) + ", and no consumer has said that it came; if it comes, its consumer drops it"
		},
	}
}

// changedMessage is what cancel and reschedule print for each ID.
type changedMessage struct {
	ID      string    `json:"id"`
	Outcome string    `json:"outcome"`
	At      time.Time `json:"at,omitzero"`
	Due     time.Time `json:"due,omitzero"`
	// Of a search: the tier it was found in, or how many messages were looked at in vain,
	// and where not at all that there are.
	Tier       string   `json:"tier,omitempty"`
	Looked     int      `json:"looked,omitempty"`
	Unfinished []string `json:"unfinished,omitempty"`
	Error      string   `json:"error,omitempty"`
}

const changedRow = "%-24s  %s"

// changeEach changes each message, and prints what came of it.
func (a *app) changeEach(
	ctx context.Context, format string, ids []string, what changing, change func(context.Context, string) (redisbridge.Change, error),
) error {
	out := &changes{
		stream:   stream{out: a.out, format: format, header: fmt.Sprintf(changedRow, "ID", "OUTCOME")},
		changing: what,
	}
	var lost error
	eachID(ctx, a, ids, change, func(id string, c redisbridge.Change, err error) bool {
		if hopeless(err) {
			lost = err
			return false
		}
		return out.answered(ctx, changed{id, c, err})
	})
	if lost != nil {
		out.search = nil // which needs Redis, too
	}
	out.release(ctx)
	err := out.close()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case lost != nil:
		return lost
	case err != nil:
		return err
	case out.fault != nil:
		return out.fault
	case out.bad > 0:
		return fmt.Errorf("%d of %d messages were not %s, or may not have been; see above", out.bad, out.n, what.done)
	}
	return nil
}

// changed is what came of changing one message.
type changed struct {
	id string
	redisbridge.Change
	err error
}

func (c *changed) isUnknown() bool { return c.err == nil && c.Outcome == redisbridge.Unknown }

// mostHeld is how many answers may wait for a search.
const mostHeld = 10_000

// changes prints the answers, in the order of the IDs. From the first one on that a
// search may better they wait for the others, so that there is one search for all.
type changes struct {
	stream
	changing
	held  []changed
	bad   int
	fault error // of the search
}

func (w *changes) answered(ctx context.Context, c changed) bool {
	if w.search == nil || len(w.held) == 0 && !w.mayFind(&c) {
		return w.print(c, redisbridge.Search{})
	}
	w.held = append(w.held, c)
	return len(w.held) < mostHeld || w.release(ctx)
}

func (w *changes) mayFind(c *changed) bool { return c.isUnknown() && c.Due.Sub(c.At) < w.reach }

// release searches for what is unknown, and prints what has waited for that.
func (w *changes) release(ctx context.Context) bool {
	held := w.held
	w.held = nil
	var ids []string
	for _, c := range held {
		if w.mayFind(&c) {
			ids = append(ids, c.id)
		}
	}
	var s redisbridge.Search
	if len(ids) > 0 && w.search != nil && ctx.Err() == nil {
		if s, w.fault = w.search(ctx, ids); w.fault != nil {
			w.search = nil
		}
	}
	for _, c := range held {
		if !w.print(c, s) {
			return false
		}
	}
	return true
}

func (w *changes) print(c changed, s redisbridge.Search) bool {
	m := changedMessage{ID: c.id}
	ttl, found := s.Found[c.id]
	if found = found && c.isUnknown(); found {
		c.Outcome, m.Tier = redisbridge.Done, topology.TTLName(ttl)
	}
	m.Outcome, m.At, m.Due = w.outcome(c.Change), c.At.UTC(), c.Due.UTC()
	text := w.text(c.Change)
	switch {
	case c.err != nil:
		m = changedMessage{ID: c.id, Outcome: "failed", Error: oneLine(c.err)}
		text = "failed: " + m.Error
	case found:
		text = fmt.Sprintf("%s, found in tier %s, due %s", w.done, m.Tier, instantText(c.Due))
	case w.mayFind(&c):
		m.Looked, m.Unfinished = s.Looked, s.Unfinished
		text += lookedText(s)
	}
	if c.err != nil || !w.good(c.Outcome) {
		w.bad++
	}
	return w.add(m, fmt.Sprintf(changedRow, printable(c.id), printable(text)))
}

// lookedText is what is said of a search that was in vain.
func lookedText(s redisbridge.Search) string {
	switch {
	case len(s.Unfinished) > 0:
		return fmt.Sprintf("; it is not among the %d messages looked at, but %s was not seen through: raise --search-tiers or --search-time",
			s.Looked, strings.Join(s.Unfinished, ", "))
	case s.Looked > 0:
		return fmt.Sprintf("; it is not among the %d messages in the tiers", s.Looked)
	}
	return ""
}

// outcome is the word for an outcome in JSON.
func (w changing) outcome(c redisbridge.Change) string {
	switch c.Outcome {
	case redisbridge.Done:
		return w.done
	case redisbridge.WasDelivered:
		return "too late"
	default:
		return string(c.Outcome)
	}
}
