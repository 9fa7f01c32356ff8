package delaybridge_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge"
)

// closeOrder is what a service does with a message.
func closeOrder(_ context.Context, m delaybridge.Message) error {
	fmt.Println("closing", m.ID)
	return nil
}

// An order that is to be closed in half an hour, unless it is paid.
func ExampleClient_Publish() {
	config, err := delaybridge.FromEnv()
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := delaybridge.New(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()

	m := delaybridge.Message{ID: "order-1", RoutingKey: "order.unpaid", Body: []byte(`{"order":1}`)}
	receipt, err := client.Publish(ctx, m, delaybridge.After(30*time.Minute))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(receipt.Path, "due in", time.Until(receipt.Due).Round(time.Minute))

	stop()
	if err := <-ended; err != nil {
		fmt.Println(err)
		return
	}
	// Prints: parked due in 30m0s
}

// The order is paid. Cancelling needs no Run.
func ExampleClient_Cancel() {
	config, err := delaybridge.FromEnv()
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := delaybridge.New(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close() }()
	change, err := client.Cancel(context.Background(), "order-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(change.Outcome)
	// Prints: done
}

// Where a message is.
func ExampleClient_Get() {
	config, err := delaybridge.FromEnv()
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := delaybridge.New(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close() }()
	switch entry, err := client.Get(context.Background(), "order-1"); {
	case errors.Is(err, delaybridge.ErrNotFound):
		fmt.Println("not found")
	case err != nil:
		fmt.Println(err)
		return
	default:
		fmt.Println(entry.State)
	}
	// Prints: cancelled
}

// A service that closes orders when their messages are due.
func ExampleClient_Consume() {
	config, err := delaybridge.FromEnv()
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := delaybridge.New(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background()) // signal.NotifyContext, normally
	defer stop()
	err = client.Consume(delaybridge.ConsumerConfig{
		Queue: "closing", Bind: []string{"order.unpaid"},
		Handler: delaybridge.HandlerFunc(func(ctx context.Context, m delaybridge.Message) error {
			defer stop()
			return closeOrder(ctx, m)
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() {
		m := delaybridge.Message{ID: "order-2", RoutingKey: "order.unpaid"}
		if _, err := client.Publish(ctx, m, delaybridge.After(1500*time.Millisecond)); err != nil {
			fmt.Println(err)
		}
	}()
	if err := client.Run(ctx); err != nil { // until ctx ends, and the handlers are done
		fmt.Println(err)
		return
	}
	// Prints: closing order-2
}

// The publisher encrypts the body, and the handler decrypts it, so that Redis and RabbitMQ hold no plain text. The
// body belongs to the message's ID: with another ID it cannot be decrypted.
func Example_encryptedBody() {
	key := make([]byte, 32) // from where your secrets are kept
	block, err := aes.NewCipher(key)
	if err != nil {
		fmt.Println(err)
		return
	}
	sealer, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		fmt.Println(err)
		return
	}
	m := delaybridge.Message{ID: "order-1", RoutingKey: "order.unpaid"}
	m.Body = sealer.Seal(nil, nil, []byte(`{"card":"4111"}`), []byte(m.ID)) // then client.Publish
	body, err := sealer.Open(nil, nil, m.Body, []byte(m.ID))                // in the handler
	fmt.Println(string(body), err)
	// Output: {"card":"4111"} <nil>
}
