package producer_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer"
	"github.com/delaybridge/delaybridge/topology"
)

// An order that is to be closed in 37 minutes, unless it is paid before. No tier
// has that TTL, so the message is parked.
func Example() {
	t, err := topology.New(topology.Config{}) // what 'delaybridge topology apply' has applied
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := producer.New(producer.Config{
		AMQPURL:  "amqp://guest:guest@localhost:5672/",
		Topology: t,
		Parker:   &parker{ticket: message.Ticket{Parking: message.Parked}}, // a *redisbridge.Park, normally
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()

	publishing, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	receipt, err := p.Publish(publishing, message.Message{ID: "order-42", RoutingKey: "order.unpaid"}, message.After(37*time.Minute))
	switch {
	case err == nil:
		fmt.Println("it is", receipt.Path)
	case errors.Is(err, producer.ErrUnconfirmed):
		fmt.Println("publish it again, with the same ID:", err)
	default:
		fmt.Println("nobody has it:", err)
	}

	stop()
	if err := <-ended; err != nil {
		fmt.Println(err)
	}
	// Output: it is parked
}
