package redisbridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/internal/sleep"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/redisbridge/internal/commands"
)

// AuditRecord says who did what: a line of 'delaybridge audit'. There is one for each command line, and for
// each command over AMQP, however many messages it is about. What is written beyond a bound is cut off.
type AuditRecord struct {
	// At is when the record was written, by Redis' clock. [Park.RecordAudit] sets it.
	At time.Time `json:"at,omitzero"`
	// Who is a user of RabbitMQ, or user@host; empty where that is unknown.
	Who string `json:"who,omitempty"`
	// KnownBy says how that is known: connection, by the property user-id, which RabbitMQ compares with the user
	// of the connection; machine, by what the process says of its user and host; or unknown.
	KnownBy string `json:"known_by"`
	// Via is cli, or command for one over AMQP.
	Via string `json:"via"`
	// Action is the name of the command, such as cancel.
	Action string `json:"action"`
	Entry  string `json:"entry,omitempty"`
	// IDs are the first 20 messages that were named, and Named is how many were.
	IDs   []string `json:"ids,omitempty"`
	Named int      `json:"named,omitempty"`
	Group string   `json:"group,omitempty"`
	// Details say the rest of what was asked for, in words: a filter, a new due time, or a file.
	Details string `json:"details,omitempty"`
	Reason  string `json:"reason,omitempty"`
	// Begun marks the record that is written before what cannot be undone. A second one follows.
	Begun bool `json:"begun,omitempty"`
	// Outcome counts messages by what became of them.
	Outcome map[string]int `json:"outcome,omitempty"`
	// Error is why the action failed, or was not completed.
	Error string `json:"error,omitempty"`
}

// Bounds of a record.
const (
	auditIDs  = 20
	auditText = 1000 // characters
)

// bounded returns r without what is over its bounds.
func (r AuditRecord) bounded() AuditRecord {
	r.Named = max(r.Named, len(r.IDs))
	r.IDs = slices.Clone(r.IDs[:min(len(r.IDs), auditIDs)])
	for _, text := range []*string{&r.Who, &r.Details, &r.Error} {
		if runes := []rune(*text); len(runes) > auditText {
			*text = string(runes[:auditText]) + "…"
		}
	}
	return r
}

// attributes are r in a log line.
func (r AuditRecord) attributes() []any {
	all := []any{"action", r.Action, "who", r.Who, "known_by", r.KnownBy}
	for _, one := range []struct{ name, text string }{
		{"entry", r.Entry}, {"group", r.Group}, {"details", r.Details}, {"reason", r.Reason},
	} {
		if one.text != "" {
			all = append(all, one.name, one.text)
		}
	}
	if r.Named > 0 {
		all = append(all, "ids", r.IDs, "named", r.Named)
	}
	var outcome []string
	for _, what := range slices.Sorted(maps.Keys(r.Outcome)) {
		outcome = append(outcome, fmt.Sprintf("%s %d", what, r.Outcome[what]))
	}
	return append(all, "outcome", strings.Join(outcome, ", "))
}

// RecordAudit adds a record to the audit log, which is in Redis and keeps the last 10,000, and some more. The
// error wraps ErrInvalid where the reason is longer than 500 characters. After one that wraps ErrUnconfirmed it
// is unknown whether the record was added.
func (p *Park) RecordAudit(ctx context.Context, r AuditRecord) error {
	if err := wire.CheckReason(r.Reason); err != nil {
		return fmt.Errorf("record for the audit log: %w: %w", ErrInvalid, err)
	}
	r = r.bounded()
	r.At = time.Time{} // Redis' clock says it
	text, err := json.Marshal(r)
	if err == nil {
		err = p.store.AppendAudit(ctx, string(text))
	}
	if err != nil {
		return fmt.Errorf("record for the audit log: %w", err)
	}
	return nil
}

// AuditFilter chooses records. The zero value chooses all that are kept.
type AuditFilter struct {
	// Since is the first instant, by Redis' clock.
	Since time.Time
	// Action is the name of a command; empty means any.
	Action string
	// ID is a message that a record names. It names the first 20.
	ID string
	// Limit takes the last ones; 0 means all.
	Limit int
	// Follow goes on with what is recorded later, until the context ends: it asks every second.
	Follow bool
}

func (f AuditFilter) matches(r *AuditRecord) bool {
	return (f.Action == "" || f.Action == r.Action) && (f.ID == "" || slices.Contains(r.IDs, f.ID))
}

// auditEvery is how often the log is asked for what is new.
const auditEvery = time.Second

// AuditLog returns the records that f chooses, the newest last. An error ends it.
func (p *Park) AuditLog(ctx context.Context, f AuditFilter) iter.Seq2[AuditRecord, error] {
	return func(yield func(AuditRecord, error) bool) {
		position := ""
		for ctx.Err() == nil {
			records, last, err := p.auditLog(ctx, f, position)
			if ctx.Err() != nil && f.Follow {
				return
			}
			if err != nil {
				yield(AuditRecord{}, fmt.Errorf("read the audit log: %w", err))
				return
			}
			for _, r := range records {
				if !yield(r, nil) {
					return
				}
			}
			if !f.Follow {
				return
			}
			position, f.Limit = last, 0
			sleep.For(ctx, auditEvery)
		}
	}
}

// auditLog reads to the end of the log.
func (p *Park) auditLog(ctx context.Context, f AuditFilter, after string) (records []AuditRecord, last string, err error) {
	last = after
	for {
		page, err := p.store.AuditLog(ctx, f.Since, last)
		if err != nil || len(page) == 0 {
			return records, last, err
		}
		for _, one := range page {
			last = one.Position
			var r AuditRecord
			if json.Unmarshal([]byte(one.Text), &r) != nil {
				continue // another release may write something else
			}
			if r.At = one.At; f.matches(&r) {
				records = append(records, r)
			}
		}
		if f.Limit > 0 && len(records) > f.Limit {
			records = slices.Delete(records, 0, len(records)-f.Limit)
		}
	}
}

// auditWithin is how long a command waits for its record.
const auditWithin = 2 * time.Second

// recordCommand adds a command that was carried out to the audit log, and to this bridge's log. Without a record
// the command is carried out nevertheless. A bridge that dies in between carries it out, and records it, again.
func (b *Bridge) recordCommand(ctx context.Context, c *commands.Request, results []any) {
	r := AuditRecord{
		Who: c.User, KnownBy: "unknown", Via: "command", Action: c.Kind, Entry: c.Entry, IDs: c.IDs, Group: c.Group,
		Reason: c.Reason, Outcome: outcomesOf(results),
	}
	if c.User != "" {
		r.KnownBy = "connection"
	}
	if c.Kind == commands.Reschedule {
		r.Details = c.WhenText()
	}
	r = r.bounded()
	b.log.Info("command carried out", r.attributes()...)
	ctx, cancel := context.WithTimeout(ctx, auditWithin)
	defer cancel()
	if err := b.park.RecordAudit(ctx, r); err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		b.log.Warn("a command is not in the audit log; let the user of Redis XADD there, see 'delaybridge permissions --role bridge'", "action", r.Action, "error", err)
	}
}

// outcomesOf counts what came of a command.
func outcomesOf(results []any) map[string]int {
	counts := map[string]int{}
	for _, result := range results {
		switch one := result.(type) {
		case Change:
			counts[wordFor(one.Outcome, one.done)]++
		case GroupChange:
			for outcome, n := range one.Outcomes {
				counts[wordFor(outcome, one.done)] += n
			}
		case failed:
			counts[one.Outcome]++
		}
	}
	return counts
}
