package broker_test

import (
	"strconv"
	"testing"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

// A queue that answers nothing holds up the answers of no other.
func TestAnswersDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	server := servertest.SingleRabbitMQ(t)
	ch := channel(t, server.AMQPURL())
	for _, queue := range []string{"silent", "fine", "well"} {
		declare(t, ch, queue, quorum())
	}
	p := broker.NewPool(connect(t, server.AMQPURL()), 8)
	t.Cleanup(p.Close)
	hung, l := newLedger(), newLedger()
	// Over a channel that has not met the queue RabbitMQ refuses after half a minute.
	if err := l.publishTo(t.Context(), p, "silent", "first"); err != nil {
		t.Fatal(err)
	}
	l.await(t)
	resume := servertest.Silence(t, server, "silent")
	const toSilent, toOthers = broker.QueueBound, 1000
	for i := range toSilent {
		if err := hung.publishTo(t.Context(), p, "silent", "hung-"+strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range toOthers {
		for _, queue := range []string{"fine", "well"} {
			if err := l.publishTo(t.Context(), p, queue, queue+strconv.Itoa(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for id, err := range l.await(t) {
		if err != nil {
			t.Errorf("%s, to another queue: %v", id, err)
		}
	}
	if n := hung.count(); n > 0 {
		t.Errorf("%d messages to the queue that answers nothing have an answer", n)
	}
	resume()
	for id, err := range hung.await(t) {
		if err != nil {
			t.Errorf("%s, to the queue that answers again: %v", id, err)
		}
	}
	if got := len(drain(t, ch, "silent")); got != toSilent+1 {
		t.Errorf("%d messages in the queue that answers again, want %d", got, toSilent+1)
	}
}

// RabbitMQ stops reading from a connection that goes on sending to a queue that answers
// nothing. The connection is replaced then.
func TestConnectionThatIsNotReadIsReplaced(t *testing.T) {
	t.Parallel()
	server := servertest.SingleRabbitMQ(t)
	ch := channel(t, server.AMQPURL())
	declare(t, ch, "silent", quorum())
	declare(t, ch, "fine", quorum())
	p := broker.NewPool(connect(t, server.AMQPURL()), 8)
	t.Cleanup(p.Close)
	hung, l := newLedger(), newLedger()
	servertest.Silence(t, server, "silent")
	for i := range 5000 {
		_ = hung.publishTo(t.Context(), p, "silent", "hung-"+strconv.Itoa(i)) // at last without a connection
	}
	hung.await(t)
	if err := l.publishTo(t.Context(), p, "fine", "last"); err != nil {
		t.Fatal(err)
	}
	if err := l.await(t)["last"]; err != nil {
		t.Errorf("to another queue, over the next connection: %v", err)
	}
}
