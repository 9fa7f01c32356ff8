// Package outbox publishes, cancels and reschedules messages in the user's own database
// transaction: what is asked for happens if that transaction commits, and only then.
//
// An order that is placed has to be closed in half an hour. A process that commits the order
// and dies before it publishes leaves an order that is never closed; one that publishes first
// closes an order that may not exist. Here the order and a row of the table
// delaybridge_outbox are one transaction, and a [Relay] publishes the row:
//
//	box := postgres.New(pool) // producer/outbox/postgres; or mysql, sqlite
//	err := box.Migrate(ctx)
//	...
//	_, err = tx.Exec(ctx, `INSERT INTO orders ...`)
//	err = box.Publish(ctx, tx, m, message.After(30*time.Minute))
//	err = tx.Commit(ctx)
//
// Payment cancels in its own transaction: box.Cancel(ctx, tx, id). A service in another
// language inserts the rows itself; docs/outbox.md describes each column.
//
// A delay runs from when the row was inserted, by the clock of the database. Neither a relay
// nor a broker that is down makes a message early, and one that is due by the time they are
// back is delivered at once. Clocks of database and Redis should agree, as for any instant.
//
// Rows of one message ID are sent in their order; the next one waits until RabbitMQ or Redis
// has the one before it. A row goes when it was sent, and not before: so one whose relay dies
// in between is sent twice. While the message waits, the second one is recognised.
package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
)

// Action is what a row asks for.
type Action string

// The actions, as column action has them.
const (
	ActionPublish    Action = "publish"
	ActionCancel     Action = "cancel"
	ActionReschedule Action = "reschedule"
)

// Row is a row of the table delaybridge_outbox, for those who write a [Store].
type Row struct {
	// Seq is the row's number. Rows of one MessageID and Entry are sent in its order.
	Seq       int64
	Action    Action
	MessageID string
	// Entry is the name of an entry exchange; empty is the default one.
	Entry      string
	RoutingKey string
	// DelayMS is the delay in milliseconds, from CreatedMS on, and DeliverAtMS an instant in
	// Unix milliseconds. One of them is nil; if both are, the message is due at once.
	DelayMS, DeliverAtMS *int64
	// CreatedMS is when the row was inserted, in Unix milliseconds by the database's clock.
	CreatedMS int64
	Body      []byte
	// Headers is a JSON object. Whole numbers in it become signed 64-bit integers, all others
	// doubles.
	Headers string
	// Properties is a JSON object with the other AMQP properties: content_type,
	// content_encoding, correlation_id, reply_to, type, app_id, timestamp (Unix seconds),
	// expiration, user_id and priority.
	Properties string
}

// Failed is a row that was set aside, since it can never be sent as it is.
type Failed struct {
	Row
	// At is when it was set aside, and Reason what is wrong with it.
	At     time.Time
	Reason string
}

// properties is what Row.Properties says.
type properties struct {
	ContentType     string `json:"content_type,omitempty"`
	ContentEncoding string `json:"content_encoding,omitempty"`
	CorrelationID   string `json:"correlation_id,omitempty"`
	ReplyTo         string `json:"reply_to,omitempty"`
	Type            string `json:"type,omitempty"`
	AppID           string `json:"app_id,omitempty"`
	Timestamp       int64  `json:"timestamp,omitempty"`
	Expiration      string `json:"expiration,omitempty"`
	UserID          string `json:"user_id,omitempty"`
	Priority        uint8  `json:"priority,omitempty"`
}

// ErrInvalid means that no row was inserted, since it could never be sent. The error names
// every fault.
var ErrInvalid = errors.New("invalid message")

// NewPublish returns the row that publishes m when w says. A header that JSON has no type
// for, such as bytes, is a fault.
func NewPublish(m *message.Message, w message.When) (Row, error) {
	headers, err := wire.JSONOfTable(m.Headers)
	if err != nil {
		err = fmt.Errorf("outbox: headers: %w", err)
	}
	if err := errors.Join(m.Validate(), w.Validate(time.Now()), validText(m), err); err != nil {
		return Row{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	p := properties{
		ContentType: m.ContentType, ContentEncoding: m.ContentEncoding, CorrelationID: m.CorrelationID, ReplyTo: m.ReplyTo,
		Type: m.Type, AppID: m.AppID, Expiration: m.Expiration, UserID: m.UserID, Priority: m.Priority,
	}
	if !m.Timestamp.IsZero() {
		p.Timestamp = m.Timestamp.Unix()
	}
	text, err := json.Marshal(p)
	if err != nil {
		return Row{}, err
	}
	r := Row{
		Action: ActionPublish, MessageID: m.ID, Entry: m.Entry, RoutingKey: m.RoutingKey,
		Body: m.Body, Headers: string(headers), Properties: string(text),
	}
	r.setWhen(w)
	return r, nil
}

// validText rejects what a column for text cannot hold.
func validText(m *message.Message) error {
	var faults []error
	for _, p := range []struct{ name, value string }{
		{"ID", m.ID}, {"entry", m.Entry}, {"routing key", m.RoutingKey}, {"content type", m.ContentType},
		{"content encoding", m.ContentEncoding}, {"correlation ID", m.CorrelationID}, {"reply-to", m.ReplyTo},
		{"type", m.Type}, {"app ID", m.AppID}, {"expiration", m.Expiration}, {"user ID", m.UserID},
	} {
		if !utf8.ValidString(p.value) || strings.ContainsRune(p.value, 0) {
			faults = append(faults, fmt.Errorf("outbox: %s %.40q: the database takes UTF-8 without a zero byte", p.name, p.value))
		}
	}
	return errors.Join(faults...)
}

// NewCancel returns the row that cancels the messages of an entry with an ID.
func NewCancel(entry, id string) (Row, error) {
	return newChange(ActionCancel, entry, id)
}

// NewReschedule returns the row that gives the messages of an entry with an ID another due
// time.
func NewReschedule(entry, id string, w message.When) (Row, error) {
	r, err := newChange(ActionReschedule, entry, id)
	if err = errors.Join(err, w.Validate(time.Now())); err != nil {
		return Row{}, err
	}
	r.setWhen(w)
	return r, nil
}

func newChange(action Action, entry, id string) (Row, error) {
	if id == "" || len(id) > wire.MaxIDBytes {
		return Row{}, fmt.Errorf("%w: outbox: ID of %d bytes: want 1 to %d", ErrInvalid, len(id), wire.MaxIDBytes)
	}
	return Row{Action: action, MessageID: id, Entry: entry, Body: []byte{}, Headers: "{}", Properties: "{}"}, nil
}

func (r *Row) setWhen(w message.When) {
	if delay, relative := w.Relative(); relative {
		ms := delay.Milliseconds()
		r.DelayMS = &ms
		return
	}
	at, _ := w.Instant()
	ms := at.UnixMilli()
	r.DeliverAtMS = &ms
}

// when is the row's due instant. It is the same whenever the row is sent, so that a message
// that is sent twice is recognised.
func (r *Row) when() (message.When, error) {
	switch {
	case r.DelayMS != nil && r.DeliverAtMS != nil:
		return message.When{}, errors.New("delay_ms and deliver_at_ms exclude each other")
	case r.DeliverAtMS != nil:
		return message.At(time.UnixMilli(*r.DeliverAtMS)), nil
	case r.DelayMS == nil || *r.DelayMS == 0:
		return message.When{}, nil
	}
	if err := message.After(time.Duration(*r.DelayMS) * time.Millisecond).Validate(time.Now()); err != nil || *r.DelayMS > message.MaxDelay.Milliseconds() {
		return message.When{}, fmt.Errorf("delay_ms is %d: want 0 to %d", *r.DelayMS, message.MaxDelay.Milliseconds())
	}
	return message.At(time.UnixMilli(r.CreatedMS + *r.DelayMS)), nil
}

// message is the message of a row that publishes one.
func (r *Row) message() (message.Message, error) {
	m := message.Message{ID: r.MessageID, Entry: r.Entry, RoutingKey: r.RoutingKey, Body: r.Body}
	headers, err := wire.TableOfJSON([]byte(r.Headers))
	if err != nil {
		return m, fmt.Errorf("headers: %w", err)
	}
	m.Headers = headers
	var p properties
	decoder := json.NewDecoder(strings.NewReader(r.Properties))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		return m, fmt.Errorf("properties: %w", err)
	}
	m.ContentType, m.ContentEncoding, m.CorrelationID, m.ReplyTo = p.ContentType, p.ContentEncoding, p.CorrelationID, p.ReplyTo
	m.Type, m.AppID, m.Expiration, m.UserID, m.Priority = p.Type, p.AppID, p.Expiration, p.UserID, p.Priority
	if p.Timestamp != 0 {
		m.Timestamp = time.Unix(p.Timestamp, 0)
	}
	return m, nil
}

// Backlog is what waits in an outbox.
type Backlog struct {
	Waiting int64 // rows that are to be sent
	Failed  int64 // rows that were set aside
	// Oldest is for how long the oldest waiting row has waited; 0 where none waits.
	Oldest time.Duration
}

// Store is the table delaybridge_outbox of a database. Packages postgres, mysql and sqlite
// have one each. Its methods may be called by any number of goroutines and processes.
type Store interface {
	// Take hands send at most limit rows, each the first one of its message ID, that no other
	// call holds. It removes and sets aside what send says, and returns how many there were.
	// What it held is free again when it returns, or when its process dies.
	Take(ctx context.Context, limit int, send func(context.Context, []Row) []Sent) (int, error)
	// Listen calls wake whenever rows may have come or may be tried again, first at once and
	// then every so often, until ctx ends. It returns an error where the database went away.
	// poll is how often to ask a database that cannot tell.
	Listen(ctx context.Context, poll time.Duration, wake func()) error
	// Backlog counts what waits.
	Backlog(ctx context.Context) (Backlog, error)
	// Failed lists at most limit rows that were set aside, the oldest first.
	Failed(ctx context.Context, limit int) ([]Failed, error)
	// Retry has rows that were set aside sent again: those with these numbers, or all of them
	// where none is named. It returns how many there were.
	Retry(ctx context.Context, seqs ...int64) (int64, error)
}

// Sent says what became of a row.
type Sent struct {
	Seq  int64
	Done bool // a server has it: the row goes
	// Failed is why the row can never be sent: it is set aside. Where it is empty and Done is
	// false, the row is tried again after RetryPause.
	Failed string
	// Held is that nothing speaks against trying it again at once: no server could be reached.
	Held bool
}

// RetryPause is after how long a row is tried again that a server has refused for now.
const RetryPause = 5 * time.Second
