package message_test

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/message"
)

// A delay runs by a server's clock; an instant is the same for everybody.
func ExampleWhen() {
	published := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, w := range []message.When{
		message.After(30 * time.Minute),
		message.At(time.Date(2026, 5, 2, 8, 0, 0, 0, time.UTC)),
		{}, // at once
	} {
		fmt.Println(w.From(published).UTC().Format(time.RFC3339))
	}
	// Output:
	// 2026-05-01T12:30:00Z
	// 2026-05-02T08:00:00Z
	// 2026-05-01T12:00:00Z
}

// What a consumer without package consumer learns of a delivery.
func ExampleFromDelivery() {
	m := message.FromDelivery(&amqp.Delivery{
		MessageId: "order-1", RoutingKey: "order.unpaid", Body: []byte(`{"order":1}`),
		Headers: amqp.Table{"shop": "x", "x-delaybridge-due": "2026-05-01T12:30:00.000Z", "x-delaybridge-path": "tier 30m"},
	})
	fmt.Println(m.ID, m.Headers["shop"], m.Journey.Due.UTC().Format(time.RFC3339), m.Journey.Path)
	// Output: order-1 x 2026-05-01T12:30:00Z tier 30m
}
