package fault

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

// way is how an order's message is published.
type way string

const (
	wayProducer way = "producer"                    // the Go producer, which parks what equals no tier
	wayTracked  way = "tracked"                     // the Go producer, which parks everything
	wayEntry    way = history.ThroughInbox          // a foreign client, over the entry exchange
	wayInstant  way = "instant"                     // the Go producer, at an instant
	wayEntryAt  way = history.ThroughInbox + ", at" // a foreign client, at an instant
	wayNoID     way = history.WithoutID             // a foreign client whose messages have no ID
	wayOutbox   way = history.ThroughOutbox         // a row in the order's own transaction, which a relay sends
)

const (
	// largeBody is more than a frame of AMQP, and than a batch of parked messages has room for.
	largeBody = 2 << 20
	// longestOrder keeps the time to wait at the end short.
	longestOrder = 8 * time.Second
	// longestWait is what is added at most to the delay of one that is due within the run.
	longestWait = 3 * time.Minute
)

// customerOrder is all that a customer does with one order. It follows from the
// seed and the number of the order, so that a run can be repeated.
type customerOrder struct {
	orders.Order
	key     string
	way     way
	shares  bool   // the ID of the order before
	entry   string // that of foreign clients; empty for the default one
	delay   time.Duration
	wait    time.Duration // added to the delay of a few, where the run is long enough
	pays    bool
	payIn   time.Duration // after placing
	insists bool          // publishes again when it has no answer

	repeats  bool          // publishes again although it has one
	repeatIn time.Duration // after the answer

	looks  bool          // it is looked up once
	lookIn time.Duration // after placing

	bulk int // so many bytes more in the body

	changes  [2]change
	fails    int  // so many attempts to handle its message fail
	rejected bool // the next one rejects it
}

// change is what a customer does to an order's message; the zero value is nothing.
type change struct {
	does    changing
	in      time.Duration // after placing
	to      time.Duration // due so long after that
	instant bool          // asked for as an instant
}

// changing says what is done to a message.
type changing string

const (
	cancels     changing = "cancel"
	reschedules changing = "reschedule"
)

const (
	failsPlainly failure = iota
	failsForNow          // and says when to try again
	failsInPanic
)

func orderID(n int) string { return fmt.Sprintf("o-%06d", n) }

// orderNumber is the opposite of orderID.
func orderNumber(id string) (n int, ok bool) {
	n, err := strconv.Atoi(strings.TrimPrefix(id, "o-"))
	return n, err == nil && n >= 0
}

// mayShare says whether the order's message may have another one's ID: it has one, and that
// of the default entry.
func (o *customerOrder) mayShare() bool {
	return o.way != wayNoID && o.way != wayOutbox && o.entry == ""
}

// messageID returns the ID of the order's message.
func (o *customerOrder) messageID() string {
	switch {
	case o.way == wayNoID:
		return ""
	case o.shares:
		n, _ := orderNumber(o.ID)
		return orderID(n - 1)
	}
	return o.ID
}

// message returns the message of an order, different in every property that is
// to arrive as it was sent.
func (o *customerOrder) message() message.Message {
	number, _ := orderNumber(o.ID)
	n := int64(number)
	stamp := time.Unix(1_700_000_000+n, 0)
	m := message.Message{
		Entry: o.entry, RoutingKey: o.key, Body: append([]byte(strings.Repeat(o.ID+" ", int(n%64)+1)), make([]byte, o.bulk)...),
		Headers: amqp.Table{
			"number": n, "sku": o.SKU, "price": amqp.Decimal{Scale: 2, Value: int32(n % 10_000)}, "at": stamp, "raw": []byte{0, byte(n), 255},
			"lines": []any{int64(o.Quantity), "piece", amqp.Table{"gift": n%2 == 0}}, "none": nil, "weight": float64(n) / 8,
		},
		ContentType: "text/plain", ContentEncoding: "identity", CorrelationID: "c-" + o.ID, ReplyTo: "answers",
		Type: "order", AppID: "fault", Timestamp: stamp, Priority: uint8(n % 5),
	}
	if o.way == wayOutbox { // whose headers are JSON
		m.Headers = amqp.Table{"number": n, "sku": o.SKU, "weight": float64(n) + 0.5, "lines": []any{int64(o.Quantity), "piece", amqp.Table{"gift": n%2 == 0}}, "none": nil}
	}
	if o.usesProducer() {
		// In a tier that the broker alone fills these would act: RabbitMQ 4.0 to 4.2
		// let a message of high priority hold up expired ones of low priority.
		m.Expiration, m.Priority = strconv.FormatInt(n+1, 10), uint8(n%10)
	}
	m.ID = o.messageID()
	return m
}

// mayTakeAdded says whether the message may go to the added entry instead. It must not if the customer asks for
// it by its ID, which belongs to its entry.
func (o *customerOrder) mayTakeAdded() bool {
	return o.entry == trackedEntry().Name && o.changes[0].does == "" && !o.looks && !o.repeats && !o.shares
}

// usesProducer says whether the Go producer publishes the message, which dates it.
func (o *customerOrder) usesProducer() bool {
	return o.way == wayProducer || o.way == wayTracked || o.way == wayInstant || o.way == wayOutbox
}

// queue returns the queue to which the order's message goes.
func (o *customerOrder) queue() string {
	switch o.key {
	case slowKey:
		return slowQueue
	case plainKey:
		return plainQueue
	}
	return queue
}

// also returns the second queue to which the order's message goes; most have none.
func (o *customerOrder) also() string {
	if o.key == mailKey {
		return mailQueue
	}
	return ""
}

// orderOf returns the ID of a message's order, which is in its body, whatever ID the message
// has.
func orderOf(body []byte) string {
	id, _, _ := strings.Cut(string(body), " ")
	return id
}

// intact says whether m is what was sent for the order.
func (o *customerOrder) intact(m message.Message) bool {
	want := o.message()
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
	if got.Entry == addedEntry().Name && o.mayTakeAdded() {
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
