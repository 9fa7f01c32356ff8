package shop

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/consumer/orders"
	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
)

// Way is how an order's message is published.
type Way string

// The ways. Which one an order takes follows from the seed.
const (
	WayProducer Way = "producer"                    // the Go producer, which parks what equals no tier
	WayTracked  Way = "tracked"                     // the Go producer, which parks everything
	WayEntry    Way = history.ThroughInbox          // a foreign client, over the entry exchange
	WayInstant  Way = "instant"                     // the Go producer, at an instant
	WayEntryAt  Way = history.ThroughInbox + ", at" // a foreign client, at an instant
	WayNoID     Way = history.WithoutID             // a foreign client whose messages have no ID
	WayOutbox   Way = history.ThroughOutbox         // a row in the order's own transaction, which a relay sends
)

const (
	// largeBody is more than a frame of AMQP, and than a batch of parked messages has room for.
	largeBody = 2 << 20
	// LongestOrder keeps the time to wait at the end short.
	LongestOrder = 8 * time.Second
	// longestWait is what is added at most to the delay of one that is due within the run.
	longestWait = 3 * time.Minute
)

// Order is all that a customer does with one order. It follows from the
// seed and the number of the order, so that a run can be repeated.
type Order struct {
	orders.Order
	key     string
	Way     Way
	Shares  bool   // the ID of the order before
	Entry   string // that of foreign clients; empty for the default one
	Delay   time.Duration
	Wait    time.Duration // added to the delay of a few, where the run is long enough
	Pays    bool
	PayIn   time.Duration // after placing
	Insists bool          // publishes again when it has no answer

	Repeats  bool          // publishes again although it has one
	RepeatIn time.Duration // after the answer

	Looks  bool          // it is looked up once
	LookIn time.Duration // after placing

	bulk int // bytes more in the body

	Changes  [2]Change
	Fails    int  // how many attempts to handle its message fail
	Rejected bool // the next one rejects it
}

// Change is what a customer does to an order's message; the zero value is nothing.
type Change struct {
	Does    Changing
	In      time.Duration // after placing
	To      time.Duration // due so long after that
	Instant bool          // asked for as an instant
}

// Changing says what is done to a message.
type Changing string

// What customers do. A change that is neither is none.
const (
	Cancels     Changing = "cancel"
	Reschedules Changing = "reschedule"
)

// OrderID returns the ID of order n.
func OrderID(n int) string { return fmt.Sprintf("o-%06d", n) }

// OrderNumber is the opposite of OrderID.
func OrderNumber(id string) (n int, ok bool) {
	n, err := strconv.Atoi(strings.TrimPrefix(id, "o-"))
	return n, err == nil && n >= 0
}

// mayShare says whether the order's message may have another one's ID: it has one, and that
// of the default entry.
func (o *Order) mayShare() bool {
	return o.Way != WayNoID && o.Way != WayOutbox && o.Entry == ""
}

// MessageID returns the ID of the order's message.
func (o *Order) MessageID() string {
	switch {
	case o.Way == WayNoID:
		return ""
	case o.Shares:
		n, _ := OrderNumber(o.ID)
		return OrderID(n - 1)
	}
	return o.ID
}

// Message returns the message of an order, different in every property that is
// to arrive as it was sent.
func (o *Order) Message() message.Message {
	number, _ := OrderNumber(o.ID)
	n := int64(number)
	stamp := time.Unix(1_700_000_000+n, 0)
	m := message.Message{
		Entry: o.Entry, RoutingKey: o.key, Body: append([]byte(strings.Repeat(o.ID+" ", int(n%64)+1)), make([]byte, o.bulk)...),
		Headers: amqp.Table{
			"number": n, "sku": o.SKU, "price": amqp.Decimal{Scale: 2, Value: int32(n % 10_000)}, "at": stamp, "raw": []byte{0, byte(n), 255},
			"lines": []any{int64(o.Quantity), "piece", amqp.Table{"gift": n%2 == 0}}, "none": nil, "weight": float64(n) / 8,
		},
		ContentType: "text/plain", ContentEncoding: "identity", CorrelationID: "c-" + o.ID, ReplyTo: "answers",
		Type: "order", AppID: "fault", Timestamp: stamp, Priority: uint8(n % 5),
	}
	if o.Way == WayOutbox { // whose headers are JSON
		m.Headers = amqp.Table{"number": n, "sku": o.SKU, "weight": float64(n) + 0.5, "lines": []any{int64(o.Quantity), "piece", amqp.Table{"gift": n%2 == 0}}, "none": nil}
	}
	if o.UsesProducer() {
		// In a tier that the broker alone fills these would act: RabbitMQ 4.0 to 4.2
		// let a message of high priority hold up expired ones of low priority.
		m.Expiration, m.Priority = strconv.FormatInt(n+1, 10), uint8(n%10)
	}
	m.ID = o.MessageID()
	return m
}

// MayTakeAdded says whether the message may go to the added entry instead. It must not if the customer asks for
// it by its ID, which belongs to its entry.
func (o *Order) MayTakeAdded() bool {
	return o.Entry == TrackedEntry().Name && o.Changes[0].Does == "" && !o.Looks && !o.Repeats && !o.Shares
}

// UsesProducer says whether the Go producer publishes the message, which dates it.
func (o *Order) UsesProducer() bool {
	return o.Way == WayProducer || o.Way == WayTracked || o.Way == WayInstant || o.Way == WayOutbox
}

// Queue returns the queue to which the order's message goes.
func (o *Order) Queue() string {
	switch o.key {
	case SlowKey:
		return SlowQueue
	case PlainKey:
		return PlainQueue
	}
	return Queue
}

// Also returns the second queue to which the order's message goes; most have none.
func (o *Order) Also() string {
	if o.key == MailKey {
		return MailQueue
	}
	return ""
}

// OrderOf returns the ID of a message's order, which is in its body, whatever ID the message
// has.
func OrderOf(body []byte) string {
	id, _, _ := strings.Cut(string(body), " ")
	return id
}

// Intact says whether m is what was sent for the order.
func (o *Order) Intact(m message.Message) bool {
	want := o.Message()
	got := m
	got.Journey = message.Journey{}
	if strings.HasPrefix(m.ID, wire.MadeUpPrefix) {
		got.ID = ""
	}
	got.Headers = amqp.Table{}
	for name, value := range m.Headers {
		if name != wire.HeaderDelay && name != wire.HeaderDeliverAt {
			got.Headers[name] = value
		}
	}
	if !got.Timestamp.Equal(want.Timestamp) {
		return false
	}
	got.Timestamp = want.Timestamp // a time zone of its own
	if got.Entry == AddedEntry().Name && o.MayTakeAdded() {
		got.Entry = want.Entry
	}
	if at, there := want.Headers["at"]; there {
		if !sameInstant(got.Headers["at"], at) {
			return false
		}
		got.Headers["at"] = at // likewise
	}
	return reflect.DeepEqual(got, want)
}

func sameInstant(a, b any) bool {
	x, ok := a.(time.Time)
	y, too := b.(time.Time)
	return ok && too && x.Equal(y)
}
