package producer_test

import (
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer"
)

// BenchmarkPublish compares allocs/op of Publish with those of the client
// library alone, which sends the same message and waits for its confirm.
func BenchmarkPublish(b *testing.B) {
	setup, _ := newBench(b)
	m := message.Message{ID: "o-1", RoutingKey: "order.unpaid", Body: make([]byte, 256)}
	tier, _ := setup.topology.Tier(time.Hour)
	const publishers = 128 // per processor

	b.Run("library", func(b *testing.B) {
		ch, err := setup.dial(b).Channel()
		if err != nil {
			b.Fatal(err)
		}
		if err := ch.Confirm(false); err != nil {
			b.Fatal(err)
		}
		now := time.Now()
		p := m.Publishing(message.Journey{Published: now, Due: now.Add(tier.TTL), Path: message.Path("tier 1h")})
		b.ReportAllocs()
		b.SetParallelism(publishers)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				confirm, err := ch.PublishWithDeferredConfirm(tier.Name, m.RoutingKey, true, false, p)
				if err != nil {
					b.Fatal(err)
				}
				confirm.Wait()
			}
		})
	})
	b.Run("tier", func(b *testing.B) {
		p := setup.producer(b, producer.Config{})
		publish := func(b *testing.B) {
			b.Helper()
			if _, err := p.Publish(b.Context(), m, message.After(tier.TTL)); err != nil {
				b.Fatal(err)
			}
		}
		publish(b) // connect before it counts
		b.ReportAllocs()
		b.ResetTimer()
		b.SetParallelism(publishers)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				publish(b)
			}
		})
	})
	b.Run("parked", func(b *testing.B) {
		p := newProducer(b, producer.Config{Parker: &parker{ticket: message.Ticket{Parking: message.Parked}}})
		b.ReportAllocs()
		for b.Loop() {
			if _, err := p.Publish(b.Context(), m, message.After(7*time.Second)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkPublishing is what a message's headers cost.
func BenchmarkPublishing(b *testing.B) {
	m := message.Message{ID: "o-1", RoutingKey: "order.unpaid", Body: make([]byte, 256)}
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		_ = m.Publishing(message.Journey{Published: now, Due: now.Add(time.Hour), Path: "tier 1h"}).MessageId
	}
}
