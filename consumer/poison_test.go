package consumer_test

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/internal/wire"
)

// publishPoison sends a message that brokers accept and amqp091-go cannot read:
// an array of more than 8192 elements would end the consumer's connection.
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
	outcomes := map[consumer.Outcome]int{}
	for _, o := range r.observations() {
		outcomes[o.Outcome]++
		if (o.Outcome == consumer.Quarantined) != (o.Message.ID == "poison" && o.Err != nil) {
			t.Errorf("observed %+v", o)
		}
	}
	if outcomes[consumer.Acknowledged] != n || outcomes[consumer.Quarantined] != 1 || len(outcomes) != 2 {
		t.Errorf("observed %v", outcomes)
	}
}

// Another user's queue may dead-letter to any exchange: a copy goes to quarantine, and says what it
// lacks.
func TestPoisonInAQueueOfOthersIsQuarantinedAsFarAsItCanBe(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.bind()
	var l ledger
	c := b.config(l.Handle)
	c.Bind = nil
	r := start(t, c)
	b.publishPoison()
	b.publish(numbered(1)...)
	eventually(t, func() error { return l.has(1) })
	b.wantHeld(b.topology.Quarantine(), 1)
	d := b.get(b.topology.Quarantine())
	if reason, _ := d.Headers[wire.HeaderError].(string); d.MessageId != "poison" || !strings.Contains(reason, "more than 8192 entries") {
		t.Errorf("in quarantine: %+v", d)
	}
	r.stop()
}
