package consumer_test

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/consumer"
)

// publishPoison sends a message that brokers accept and amqp091-go cannot read:
// an array of more than 8192 elements ends the consumer's connection.
func (b *broker) publishPoison() {
	b.t.Helper()
	ch := b.channel()
	if err := ch.Confirm(false); err != nil {
		b.t.Fatal(err)
	}
	confirmed, err := ch.PublishWithDeferredConfirm(b.topology.ReadyExchange(), key, true, false, amqp.Publishing{
		MessageId: "poison", DeliveryMode: amqp.Persistent, Headers: amqp.Table{"list": make([]any, 8193)},
	})
	if err != nil || !confirmed.Wait() {
		b.t.Fatalf("publish poison: %v", err)
	}
}

func TestPoisonEndsInQuarantineAlone(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.bind()
	const n = 250
	messages := numbered(n)
	b.publish(messages[:5]...)
	b.publishPoison()
	b.publish(messages[5:]...)
	var l ledger
	r := start(t, b.config(l.Handle))
	eventually(t, func() error { return l.has(n) })
	b.wantHeld(b.topology.Quarantine(), 1)
	b.wantHeld(b.queue, 0)
	r.stop()
	for _, o := range r.observations() {
		// What waited for a handler when the poison ended the connection was given back.
		if o.Outcome != consumer.Acknowledged && o.Outcome != consumer.Returned {
			t.Errorf("observed %+v", o)
		}
	}
}
