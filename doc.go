// Package delaybridge publishes messages with a delay on RabbitMQ, from a millisecond to ten
// years, cancels and reschedules them, and consumes them when they are due.
//
// It takes RabbitMQ, Redis and a bridge, which is the command delaybridge: 'delaybridge
// bridge' puts exchanges and queues in place and brings what waits in Redis back to RabbitMQ
// in time. The README of the project says how to start one.
//
// # Publishing
//
//	client, err := delaybridge.New(delaybridge.Config{AMQPURL: amqpURL, RedisURL: redisURL})
//	go client.Run(ctx)
//	m := delaybridge.Message{ID: "order-1", RoutingKey: "order.unpaid", Body: body}
//	receipt, err := client.Publish(ctx, m, delaybridge.After(30*time.Minute))
//
// Publish returns nil once a server has the message: it is on the disk of Redis, or confirmed
// by RabbitMQ. Every message needs an ID. By it a repetition is recognised, which is what a
// publisher sends that has not got an answer, and by it the message is cancelled.
//
// # Cancelling
//
//	change, err := client.Cancel(ctx, "order-1")
//
// The answer is true: the message was cancelled, or it was delivered, and when. So is that of
// Reschedule. Get says where a message is.
//
// # Consuming
//
//	err := client.Consume(delaybridge.ConsumerConfig{
//		Queue: "closing", Bind: []string{"order.unpaid"},
//		Handler: delaybridge.HandlerFunc(func(ctx context.Context, m delaybridge.Message) error {
//			return closeOrder(ctx, m.ID)
//		}),
//	})
//	err = client.Run(ctx) // until ctx ends and the handlers are done
//
// What a handler returns an error for is handled again after a pause that grows, and ends in
// quarantine. Delivery is at least once: a message that comes twice has its effect once where
// ConsumerConfig.Ledger keeps a mark in the database of the effect (package consumer/ledger).
//
// # Settings
//
// [FromEnv] and [LoadFile] read what the bridge reads, so that a service and its bridges agree
// about tiers, shards and entries.
//
// # The packages below
//
// A [Client] wires them, and each can be used by itself: message is what travels, topology
// describes exchanges and queues and puts them in place, producer publishes, redisbridge parks
// and promotes, consumer handles.
package delaybridge
