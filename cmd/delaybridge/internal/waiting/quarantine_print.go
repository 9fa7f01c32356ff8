package waiting

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/internal/quarantine"
	"github.com/delaybridge/delaybridge/message"
)

// itemPrinter prints items one by one, however many there are: so the columns of a
// table have a fixed width.
type itemPrinter struct {
	out    io.Writer
	format string
	row    string // of the table
	header []any  // its cells in the first one, if any
	n      int
}

const (
	summaryRow = "%-24s  %-20s  %-20s  %8s  %-20s  %s\n"
	replayRow  = "%-24s  %-20s  %s\n"
	detailsRow = "%s\n"
)

func newItemPrinter(out io.Writer, format, row string, header ...any) *itemPrinter {
	return &itemPrinter{out: out, format: format, row: row, header: header}
}

// item prints one item, which is cells in a table.
func (p *itemPrinter) item(value any, cells []any) error {
	text, err := p.text(value, cells)
	if err != nil {
		return err
	}
	p.n++
	if _, err := io.WriteString(p.out, text); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

func (p *itemPrinter) text(value any, cells []any) (string, error) {
	first := p.n == 0
	switch p.format {
	case cli.FormatJSONL:
		text, err := json.Marshal(value)
		return string(text) + "\n", err
	case cli.FormatJSON:
		text, err := json.MarshalIndent(value, "  ", "  ")
		if first {
			return "[\n  " + string(text), err
		}
		return ",\n  " + string(text), err
	}
	row := fmt.Sprintf(p.row, cells...)
	if first && p.header != nil {
		return fmt.Sprintf(p.row, p.header...) + row, nil
	}
	return row, nil
}

// end completes the output.
func (p *itemPrinter) end() error {
	if p.format != cli.FormatJSON {
		return nil
	}
	text := "\n]\n"
	if p.n == 0 {
		text = "[]\n"
	}
	_, err := io.WriteString(p.out, text)
	return err
}

// quarantineSummary is what `quarantine list` prints for each message.
type quarantineSummary struct {
	ID         string     `json:"id"`
	Queue      string     `json:"queue,omitempty"` // from which it comes
	RoutingKey string     `json:"key"`
	Entry      string     `json:"entry,omitempty"`
	Attempts   int        `json:"attempts"`
	Since      *time.Time `json:"since,omitempty"` // absent where it is unknown
	Error      string     `json:"error"`
}

func summaryOf(m *quarantine.Message) quarantineSummary {
	return quarantineSummary{
		ID: m.ID, Queue: m.Journey.Queue, RoutingKey: m.RoutingKey, Entry: m.Entry,
		Attempts: m.Journey.Attempts, Since: cli.Instant(m.Since), Error: m.Error,
	}
}

func summaryCells(m *quarantine.Message) []any {
	since := "-"
	if !m.Since.IsZero() {
		since = m.Since.UTC().Format(time.RFC3339)
	}
	return []any{printable.Text(m.ID), printable.Text(cmp.Or(m.Journey.Queue, "-")), printable.Text(m.RoutingKey), strconv.Itoa(m.Journey.Attempts), since, printable.Text(m.Error)}
}

// quarantineDetails is what `quarantine show` prints for each message.
type quarantineDetails struct {
	quarantineSummary
	Stack       string       `json:"stack,omitempty"` // of the handler's panic
	History     []string     `json:"history,omitempty"`
	Published   *time.Time   `json:"published,omitempty"`
	Due         *time.Time   `json:"due,omitempty"`
	Path        message.Path `json:"path,omitempty"`
	ContentType string       `json:"content_type,omitempty"`
	Headers     amqp.Table   `json:"headers,omitempty"`
	Body        *string      `json:"body,omitempty"`        // where it is UTF-8
	BodyBase64  []byte       `json:"body_base64,omitempty"` // where it is not
}

func detailsOf(m *quarantine.Message) *quarantineDetails {
	d := &quarantineDetails{
		quarantineSummary: summaryOf(m), Stack: m.Stack, History: m.Journey.History,
		Published: cli.Instant(m.Journey.Published), Due: cli.Instant(m.Journey.Due), Path: m.Journey.Path,
		ContentType: m.ContentType, Headers: m.Headers,
	}
	d.Body, d.BodyBase64 = cli.BodyOf(m.Body)
	return d
}

// detailsText is a message for people: a line for each thing known of it.
func detailsText(m *quarantine.Message) string {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-13s %s\n", name+":", printable.Text(value))
		}
	}
	moment := func(name string, t time.Time) {
		if !t.IsZero() {
			line(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	line("id", cmp.Or(m.ID, "-"))
	line("error", m.Error)
	line("queue", m.Journey.Queue)
	line("routing key", m.RoutingKey)
	line("entry", m.Entry)
	line("attempts", strconv.Itoa(m.Journey.Attempts))
	moment("since", m.Since)
	moment("published", m.Journey.Published)
	moment("due", m.Journey.Due)
	line("path", string(m.Journey.Path))
	line("content type", m.ContentType)
	for _, attempt := range m.Journey.History {
		line("history", attempt)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		line("header", name+" = "+fmt.Sprint(m.Headers[name]))
	}
	line("body", string(m.Body))
	for frame := range strings.Lines(m.Stack) {
		line("stack", strings.ReplaceAll(strings.TrimSuffix(frame, "\n"), "\t", "  "))
	}
	return b.String()
}

// replayedMessage is what `quarantine replay` prints for each message.
type replayedMessage struct {
	ID    string `json:"id"`
	To    string `json:"to"`
	Error string `json:"error,omitempty"` // why it is in quarantine still
}

func replayedItem(r quarantine.Replayed) (replayedMessage, []any) {
	m, result := replayedMessage{ID: r.ID, To: r.To}, "replayed"
	if r.Err != nil {
		m.Error = r.Err.Error()
		result = "failed: " + printable.Text(m.Error)
	}
	return m, []any{printable.Text(m.ID), printable.Text(m.To), result}
}
