package traffic

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/consumer/orders"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/message"
)

// consumedMessage is what `consume -o jsonl` prints for each message.
type consumedMessage struct {
	ID         string       `json:"id"`
	RoutingKey string       `json:"key"`
	Path       message.Path `json:"path,omitempty"`
	Published  *time.Time   `json:"published,omitempty"`
	Due        *time.Time   `json:"due,omitempty"`
	LatenessMS *int64       `json:"lateness_ms,omitempty"` // absent where the due time is unknown
	Outcome    string       `json:"outcome"`
	Attempts   int          `json:"attempts"`
	Because    string       `json:"because,omitempty"` // of a dropped one: cancelled or rescheduled
	At         *time.Time   `json:"at,omitempty"`      // when it was cancelled, or is due now
	Error      string       `json:"error,omitempty"`
	Body       *string      `json:"body,omitempty"`        // where it is UTF-8
	BodyBase64 []byte       `json:"body_base64,omitempty"` // where it is not
}

// consumePrinter prints messages as the consumer is done with them, and stops
// it after count.
type consumePrinter struct {
	out    io.Writer
	format string
	bodies bool // what is in messages is shown in the table
	count  int  // 0 means no end
	stop   context.CancelFunc
	// timeout is what stops it, too.
	timeout time.Duration

	mu     sync.Mutex
	seen   int
	closed map[string]orders.Outcome // by message ID, between handling and printing
	err    error                     // of writing
}

const (
	consumeRow     = "%-24s  %-20s  %-22s  %9s  %s\n"
	consumeBodyRow = "%-24s  %-20s  %-22s  %9s  %-14s  %s"
	// bodyShown is how much of a body a table has, in characters.
	bodyShown = 60
)

func (p *consumePrinter) header() {
	if p.format == cli.FormatTable {
		p.row("ID", "ROUTING KEY", "PATH", "LATENESS", "OUTCOME", "BODY")
	}
}

// row writes a line of the table.
func (p *consumePrinter) row(id, key, path, lateness, outcome, body string) {
	if !p.bodies {
		p.note(fmt.Fprintf(p.out, consumeRow, id, key, path, lateness, outcome))
		return
	}
	line := fmt.Sprintf(consumeBodyRow, id, key, path, lateness, outcome, body)
	p.note(fmt.Fprintln(p.out, strings.TrimRight(line, " ")))
}

// orderClosed notes what came of an order until observe prints it.
func (p *consumePrinter) orderClosed(m message.Message, outcome orders.Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed[m.ID] = outcome
}

func (p *consumePrinter) observe(o consumer.Observation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.describe(&o)
	if o.Outcome == consumer.Returned {
		return // the consumer that gets it next prints it
	}
	if p.format == cli.FormatJSONL {
		p.note(0, json.NewEncoder(p.out).Encode(m))
	} else {
		p.row(printable.Text(m.ID), printable.Text(m.RoutingKey), printable.Text(string(m.Path)), m.lateness(), printable.Text(m.outcome()), m.beginning())
	}
	if o.Outcome == consumer.Delayed || o.Outcome == consumer.Dropped {
		return // it comes again
	}
	if p.seen++; p.seen == p.count {
		p.stop()
	}
}

func (p *consumePrinter) describe(o *consumer.Observation) *consumedMessage {
	m := &consumedMessage{
		ID: o.Message.ID, RoutingKey: o.Message.RoutingKey, Path: o.Message.Journey.Path,
		Published: cli.Instant(o.Message.Journey.Published), Due: cli.Instant(o.Message.Journey.Due),
		Outcome: string(o.Outcome), Attempts: o.Attempts, Because: o.Arrival.Because(), At: cli.Instant(o.Arrival.At),
	}
	if m.Due != nil {
		ms := floorMS(o.Lateness)
		m.LatenessMS = &ms
	}
	if outcome, ok := p.closed[m.ID]; ok && o.Outcome == consumer.Acknowledged {
		m.Outcome = string(outcome)
	}
	delete(p.closed, m.ID)
	if o.Err != nil {
		m.Error = o.Err.Error()
	}
	m.Body, m.BodyBase64 = cli.BodyOf(o.Message.Body)
	return m
}

// note keeps the first error of writing, which ends the command: one that cannot
// be told takes no more messages.
func (p *consumePrinter) note(_ int, err error) {
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("write the output: %w", err)
		p.stop()
	}
}

// result is the command's, once the consumer has drained.
func (p *consumePrinter) result(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.err != nil || p.seen >= p.count:
	case ctx.Err() == nil:
		return fmt.Errorf("%d of %d messages came within --timeout (%v)", p.seen, p.count, p.timeout)
	default:
		return fmt.Errorf("interrupted after %d of %d messages: %w", p.seen, p.count, context.Cause(ctx))
	}
	return p.err
}

// beginning is that of the body, on one line.
func (m *consumedMessage) beginning() string {
	if m.Body == nil {
		return fmt.Sprintf("(%d bytes)", len(m.BodyBase64))
	}
	text := []rune(*m.Body)
	if len(text) > bodyShown {
		text = append(text[:bodyShown], '…')
	}
	return printable.Text(string(text))
}

func (m *consumedMessage) lateness() string {
	if m.LatenessMS == nil {
		return "-"
	}
	return strconv.FormatInt(*m.LatenessMS, 10) + "ms"
}

func (m *consumedMessage) outcome() string {
	switch {
	case m.At == nil:
	case m.Because == "cancelled":
		return m.Outcome + ": cancelled at " + cli.InstantText(*m.At)
	case m.Because == "rescheduled":
		return m.Outcome + ": rescheduled, due " + cli.InstantText(*m.At)
	}
	if m.Error != "" {
		return m.Outcome + ": " + m.Error
	}
	return m.Outcome
}

// floorMS rounds towards the past, so that nothing early reads as on time.
func floorMS(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d < 0 && d%time.Millisecond != 0 {
		ms--
	}
	return ms
}
