package main

import (
	"context"
	"fmt"
	"math/bits"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// ladder is the topology that NServiceBus and Celery build: a queue per bit of
// the delay in seconds, in which a message waits if the bit is set. The delay's
// bits are the first words of its routing key, the highest first.
type ladder struct{ *rabbit }

const (
	levels         = 28
	ladderDelivery = "compare.ladder.delivery"
)

func (l *ladder) start(ctx context.Context, deliver func([]byte)) (err error) {
	if l.rabbit, err = startRabbit(ctx); err != nil {
		return err
	}
	ch := l.channel()
	for level := range levels {
		name := levelName(level)
		if err := ch.ExchangeDeclare(name, amqp.ExchangeTopic, true, false, false, false, nil); err != nil {
			return err
		}
		args := waiting(levelName(level - 1))
		args["x-message-ttl"] = ttlOf(level).Milliseconds()
		if _, err := ch.QueueDeclare(name, true, false, false, false, args); err != nil {
			return err
		}
	}
	if err := ch.ExchangeDeclare(ladderDelivery, amqp.ExchangeTopic, true, false, false, false, nil); err != nil {
		return err
	}
	for level := range levels {
		wait, pass := bindingKeys(level)
		if err := ch.QueueBind(levelName(level), wait, levelName(level), false, nil); err != nil {
			return err
		}
		if err := ch.ExchangeBind(levelName(level-1), pass, levelName(level), false, nil); err != nil {
			return err
		}
	}
	return l.deliver(ladderDelivery, "#."+routingKey, deliver)
}

func (l *ladder) publish(ctx context.Context, body []byte, delay time.Duration) error {
	seconds := wholeSeconds(delay)
	return l.rabbit.publish(ctx, levelName(firstLevel(seconds)), ladderKey(seconds), amqp.Publishing{Body: body})
}

// levelName is the name of a level's exchange and queue. Below the lowest is
// the exchange that consumers bind to.
func levelName(level int) string {
	if level < 0 {
		return ladderDelivery
	}
	return fmt.Sprintf("compare.ladder.%02d", level)
}

// ttlOf is how long a message waits on a level.
func ttlOf(level int) time.Duration { return time.Second << level }

// bindingKeys are what sends a message to a level's queue, and past it to the
// next level. The words before are those of the levels above.
func bindingKeys(level int) (wait, pass string) {
	above := strings.Repeat("*.", levels-1-level)
	return above + "1.#", above + "0.#"
}

// wholeSeconds rounds up, as a message must not come early.
func wholeSeconds(delay time.Duration) uint32 {
	return uint32((delay + time.Second - 1) / time.Second)
}

// firstLevel is where a message enters: the highest level on which it waits.
func firstLevel(seconds uint32) int { return max(0, bits.Len32(seconds)-1) }

func ladderKey(seconds uint32) string {
	var key strings.Builder
	for level := levels - 1; level >= 0; level-- {
		fmt.Fprintf(&key, "%d.", seconds>>level&1)
	}
	return key.String() + routingKey
}
