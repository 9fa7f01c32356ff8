package unsettled

import (
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// inFlight is how many acknowledgements the broker sends on to a quorum queue before
	// it has heard of them. When the channel is closed it forgets those that it has kept.
	inFlight = 32
	// onTheirWay is for how long, at most, an acknowledgement is taken to be one of those.
	onTheirWay = time.Second
	// flushTimeout bounds the wait for a broker that is slow to answer.
	flushTimeout = 2 * time.Second
)

// Acks are the acknowledgements over one channel.
type Acks struct {
	sent   atomic.Int64
	manyAt atomic.Int64 // Unix ns, of the last of each inFlight of them
}

// Ack tells the broker that a message is done with.
func (a *Acks) Ack(d *Delivery) error {
	if a.sent.Add(1)%inFlight == 0 {
		a.manyAt.Store(time.Now().UnixNano())
	}
	return d.Ack(false)
}

// Flush returns when the queue has the last acknowledgements, where there were many:
// AMQP confirms none. To get a message goes the same way, and has an answer, after which
// the channel has heard of all before; any other answer shows that it has sent on the
// rest. If there is a message, that counts as one more delivery of it. Flush asks when after is
// closed. A goroutine in background may outlast it.
func (a *Acks) Flush(ch *amqp.Channel, queue string, after <-chan struct{}, background *sync.WaitGroup) {
	if time.Since(time.Unix(0, a.manyAt.Load())) > onTheirWay {
		return
	}
	done := make(chan struct{})
	background.Go(func() {
		defer close(done)
		<-after
		d, found, err := ch.Get(queue, false)
		if err != nil {
			return
		}
		if found {
			_ = d.Nack(false, true)
		}
		_, _ = ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	})
	select {
	case <-done:
	case <-time.After(flushTimeout):
	}
}
