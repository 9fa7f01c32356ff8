package fault

import (
	"fmt"
	"math/rand/v2"
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
	keyPrefix  = "order."
	closingKey = keyPrefix + "a"
	skus       = 8
	stockEach  = 1_000_000
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

func planOrder(seed uint64, n int) customerOrder {
	rng := rand.New(rand.NewPCG(seed, uint64(n)+1))
	o := customerOrder{
		Order: orders.Order{ID: orderID(n), SKU: sku(rng.IntN(skus)), Quantity: 1 + rng.IntN(3)},
		key:   []string{closingKey, mailKey}[rng.IntN(2)],
		pays:  rng.IntN(10) < 3, insists: rng.IntN(10) < 8,
	}
	switch p := rng.IntN(20); {
	case p < 4:
		o.way = wayProducer
	case p < 8:
		o.way = wayTracked
	case p < 15:
		o.way = wayEntry
	case p < 17:
		o.way = wayNoID
	case p < 19:
		o.way = wayInstant
	default:
		o.way = wayEntryAt
	}
	switch p := rng.IntN(20); {
	case p < 7:
		o.delay = tiers()[rng.IntN(len(tiers()))]
	case p < 19:
		o.delay = time.Duration(100+rng.Int64N(longestOrder.Milliseconds()-100)) * time.Millisecond
	}
	if rng.IntN(15) == 0 { // for a queue that may answer nothing, which is to be met on each way
		o.key = slowKey
		if rng.IntN(2) == 0 {
			o.delay = []time.Duration{0, 500 * time.Millisecond}[rng.IntN(2)]
		}
		if strings.HasPrefix(string(o.way), history.ThroughInbox) && o.delay == 0 {
			// The broker alone would take it to its queue, on a channel that is not ours.
			o.delay = 500 * time.Millisecond
		}
	} else if rng.IntN(10) == 0 {
		o.key = plainKey
	}
	if strings.HasPrefix(string(o.way), history.ThroughInbox) && o.queue() == queue && rng.IntN(2) == 0 {
		o.entry = trackedEntry().Name
	}
	if rng.IntN(10) == 0 && n > 0 {
		before := planOrder(seed, n-1)
		o.shares = o.mayShare() && before.mayShare() && !before.shares && o.key != mailKey // where a ledger goes by the ID
	}
	if o.way == wayNoID && o.key == mailKey {
		o.key = closingKey // a ledger needs IDs
	}
	o.payIn = time.Duration(rng.Int64N(int64(o.delay + 500*time.Millisecond)))
	if o.planChanges(rng); o.way == wayNoID || o.shares {
		o.changes = [2]change{} // nobody knows by which ID to ask for it, or the other customer does
	}
	if rng.IntN(10) < 2 {
		o.fails = 1 + rng.IntN(2)
	}
	o.rejected = rng.IntN(25) == 0
	if o.repeats = rng.IntN(5) == 0; o.repeats {
		// One in three when the first message has come, as a rule: then it is another one.
		o.repeatIn = time.Duration(rng.Int64N(int64(o.delay*3/2 + time.Second)))
	}
	if o.looks = rng.IntN(4) == 0 && o.way != wayNoID; o.looks {
		o.lookIn = time.Duration(rng.Int64N(int64(o.delay + time.Second)))
	}
	if rng.IntN(100) == 0 {
		o.bulk = 1 + rng.IntN(largeBody)
	}
	if rng.IntN(20) == 0 {
		o.wait = time.Duration(rng.Int64N(longestWait.Milliseconds())) * time.Millisecond
	}
	if o.way == wayTracked && !o.shares && rng.IntN(3) == 0 {
		o.way, o.repeats = wayOutbox, false
	}
	if last := o.lastChange(); last.does == reschedules && o.way == wayEntry && rng.IntN(2) == 0 {
		// What comes out of a tier too early is parked, and delivered under its new version; then a
		// new message comes out of the tier.
		last.to = min(max(last.to, o.delay+time.Duration(rng.Int64N(1000))*time.Millisecond), longestOrder)
		o.repeats, o.repeatIn = true, last.in+last.to+time.Duration(rng.Int64N(int64(2*time.Second)))
	}
	return o
}

func (o *customerOrder) lastChange() *change {
	if o.changes[1].does != "" {
		return &o.changes[1]
	}
	return &o.changes[0]
}

// planChanges has half of the customers change their minds, once or twice, at any
// time: at once, on the way, when the message is about to come, and after that.
func (o *customerOrder) planChanges(rng *rand.Rand) {
	switch p := rng.IntN(20); {
	case p < 10:
		return
	case p < 13:
		o.changes[0].does = cancels
	case p < 16:
		o.changes[0].does = reschedules
	case p < 18:
		o.changes[0].does, o.changes[1].does = reschedules, reschedules
	case p < 19:
		o.changes[0].does, o.changes[1].does = reschedules, cancels
	default:
		o.changes[0].does, o.changes[1].does = cancels, cancels
	}
	due := o.delay
	for i := range o.changes {
		c := &o.changes[i]
		if c.does == "" {
			break
		}
		switch rng.IntN(4) {
		case 0:
			c.in = time.Duration(rng.Int64N(int64(50 * time.Millisecond)))
		case 1, 2:
			c.in = time.Duration(rng.Int64N(int64(due + time.Second)))
		case 3:
			c.in = around(rng, due)
		}
		if i > 0 {
			c.in = max(c.in, o.changes[i-1].in)
		}
		if c.does == reschedules {
			switch rng.IntN(5) {
			case 0:
				c.to = time.Duration(rng.Int64N(int64(500 * time.Millisecond)))
			case 1, 2:
				c.to = time.Duration(rng.Int64N(int64(longestOrder - 2*time.Second)))
			case 3:
				c.to = tiers()[rng.IntN(len(tiers()))]
			case 4:
				c.to = around(rng, due-c.in)
			}
			c.to = min(c.to, longestOrder).Truncate(time.Millisecond)
			c.instant = rng.IntN(2) == 0
			due = c.in + c.to
		}
	}
}

// around returns about d, give or take 50 ms, and not less than 0.
func around(rng *rand.Rand, d time.Duration) time.Duration {
	return max(0, d+time.Duration(rng.Int64N(int64(100*time.Millisecond)))-50*time.Millisecond)
}

// failure is how an attempt to handle a message fails.
type failure int

const (
	failsPlainly failure = iota
	failsForNow          // and says when to try again
	failsInPanic
)

// planFailure says how an attempt fails, and when to try again if the handler says so.
func planFailure(seed uint64, n, attempt int) (failure, time.Duration) {
	rng := rand.New(rand.NewPCG(seed, uint64(n)<<16+uint64(attempt)))
	return failure(rng.IntN(3)), time.Duration(rng.Int64N(int64(2 * time.Second)))
}

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

// intact says whether m is what was sent for the order planned as o.
func intact(o *customerOrder, m message.Message) bool {
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
