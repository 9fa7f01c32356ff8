package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/topology"
)

// A handler says with its error what is to become of a message.
func Example() {
	errGone := errors.New("no such customer")
	remind := func(_ context.Context, m message.Message) error {
		switch m.ID {
		case "unknown":
			return consumer.Reject(errGone) // to quarantine, no retry will help
		case "asleep":
			return consumer.RetryAfter(time.Minute, errors.New("the mail server asks for patience"))
		}
		fmt.Printf("reminded %s\n", m.ID)
		return nil // acknowledged
	}
	for _, id := range []string{"c-1", "unknown", "asleep"} {
		if err := remind(context.Background(), message.Message{ID: id}); err != nil {
			fmt.Println(id+":", err)
		}
	}
	// Output:
	// reminded c-1
	// unknown: no such customer
	// asleep: the mail server asks for patience
}

// A service consumes until it is interrupted, and finishes the work in hand.
func ExampleConsumer_Run() {
	t, err := topology.New(topology.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := consumer.New(consumer.Config{
		AMQPURL: "amqp://guest:guest@localhost:5672/", Topology: t,
		Queue: "reminders", Bind: []string{"reminder.*"},
		Handler: consumer.HandlerFunc(func(_ context.Context, m message.Message) error {
			fmt.Println("due:", m.ID)
			return nil
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := c.Run(ctx); err != nil {
		fmt.Println(err)
	}
}
