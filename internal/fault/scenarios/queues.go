package scenarios

import (
	"errors"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/fault/checker"
	"github.com/delaybridge/delaybridge/internal/fault/history"
	"github.com/delaybridge/delaybridge/internal/fault/roles"
	"github.com/delaybridge/delaybridge/internal/fault/shop"
	"github.com/delaybridge/delaybridge/internal/fault/world"
	"github.com/delaybridge/delaybridge/internal/quarantine"
	"github.com/delaybridge/delaybridge/internal/sleep"
)

const (
	// calmWithin is what the run gets to catch up with what was broken before.
	calmWithin = 2 * time.Minute
	// silence is longer than an order may be held up, and than a client waits for a confirm.
	silence = roles.PublishPatience + 5*time.Second
	// shortTimeout is a consumer timeout that is soon reached; usualTimeout is the default, and
	// usualLook is how often a channel looks.
	shortTimeout, usualTimeout, usualLook = 2 * time.Second, 30 * time.Minute, time.Minute
	// mostKills is how often consumers are killed so that messages come to their delivery limit.
	mostKills = 6
)

func queueScenarios() []Scenario {
	return []Scenario{
		// Whatever is late meanwhile must be so for this reason alone.
		{"target answers nothing", everything(), Single, (*injection).silenceTarget},
		{"quarantine replayed", []string{rabbitMQ}, Anywhere, (*injection).replayQuarantine},
		{"consumer timeout reached", append(allConsumers(), rabbitMQ), Anywhere, (*injection).reachTimeout},
		{"delivery limit reached", append(allConsumers(), rabbitMQ), Anywhere, (*injection).reachLimit},
	}
}

// reachTimeout has a consumer stand still until the broker takes back what it has.
func (i *injection) reachTimeout() error {
	p := i.oneConsumer()
	mended := i.breaks("%s stands still for longer than the consumer timeout of %v", p.Name(), shortTimeout)
	defer mended()
	set := func(timeout, look time.Duration) error {
		var errs []error
		for _, node := range i.Nodes {
			_, err := node.Control(i.ctx, "eval", fmt.Sprintf(
				"application:set_env(rabbit, consumer_timeout, %d), application:set_env(rabbit, channel_tick_interval, %d).", timeout.Milliseconds(), look.Milliseconds()))
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	// A channel has the settings of when it was opened.
	again := func() error { return errors.Join(p.Terminate(), p.Start(nil)) }
	if err := errors.Join(set(shortTimeout, shortTimeout/10), again()); err != nil {
		return err
	}
	i.hold(time.Second, 2*time.Second) // it begins
	err := p.Stop()
	i.hold(2*shortTimeout, 3*shortTimeout)
	return errors.Join(err, p.Continue(), set(usualTimeout, usualLook), again())
}

// reachLimit kills consumers until their queue hands a message out no more, and replays what
// has come to quarantine.
func (i *injection) reachLimit() error {
	mended := i.breaks("%s delivers a message twice at most, and its consumers are killed", shop.Queue)
	defer mended()
	lift, err := i.policy("^"+shop.Queue+"$", "delivery-limit", 1)
	if err != nil {
		return err
	}
	for range mostKills {
		for n := range world.Consumers {
			if err := errors.Join(i.Processes[world.ConsumerName(n)].Kill(), i.Processes[world.ConsumerName(n)].Start(nil)); err != nil {
				return err
			}
		}
		i.hold(200*time.Millisecond, time.Second)
	}
	return errors.Join(lift(), i.Replay(i.ctx, world.AtLimit()))
}

// replayQuarantine sends all that is in quarantine back to its queues, as an operator does who
// thinks that he has mended what was wrong. He has not: all of it must come back.
func (i *injection) replayQuarantine() error {
	defer i.breaks("what is in quarantine is replayed")()
	return i.Replay(i.ctx, quarantine.Filter{})
}

// silenceTarget has the queue of a few orders answer nothing, as one does that has lost its
// majority. Those of the other queue must not notice.
func (i *injection) silenceTarget() error {
	if !i.awaitCalm() {
		return i.ctx.Err()
	}
	if err := i.greet(); err != nil {
		return err
	}
	defer i.breaksAs(history.Event{Detail: shop.SlowQueue + " answers nothing", Queue: shop.SlowQueue})()
	err := i.tellQueue(shop.SlowQueue, "suspend")
	i.hold(silence, silence)
	return errors.Join(err, i.tellQueue(shop.SlowQueue, "resume"))
}

// awaitCalm waits until the run has caught up with what was broken before.
func (i *injection) awaitCalm() bool {
	for began := time.Now(); !i.calm(); sleep.For(i.ctx, time.Second) {
		if time.Since(began) > calmWithin || i.ctx.Err() != nil {
			i.Surprise(fmt.Sprintf("orders are overdue, though nothing was broken for %v", calmWithin))
			return false
		}
	}
	return true
}

// greet has each tier and lane hand a message to the slow queue. The broker's dead-letter
// worker of a queue waits for the first answer of a target, and for that alone: a tier that
// has never served a target hands over nothing to others, for as long as that is silent.
func (i *injection) greet() error {
	err := i.WithChannel(func(ch *amqp.Channel) error {
		var exchanges []string
		for _, tier := range i.Topology.Tiers() {
			exchanges = append(exchanges, tier.Name)
		}
		for _, lead := range i.Topology.Leads() {
			for shard := range i.Topology.Shards() {
				exchanges = append(exchanges, i.Topology.Lane(lead, shard))
			}
		}
		for _, exchange := range exchanges {
			// It expires at once, so as to hold up nothing.
			err := ch.PublishWithContext(i.ctx, exchange, shop.SlowKey, true, false, amqp.Publishing{Body: []byte(shop.Greeting), Expiration: "1", DeliveryMode: amqp.Persistent})
			if err != nil {
				return err
			}
		}
		return nil
	})
	longest := shop.Tiers()[len(shop.Tiers())-1] + time.Second
	i.hold(longest, longest)
	return err
}

// tellQueue has a quorum queue's process stand still or go on.
func (i *injection) tellQueue(name, what string) error {
	for _, node := range i.Nodes {
		answer, err := node.Control(i.ctx, "eval", fmt.Sprintf("sys:%s(whereis('%%2F_%s')).", what, name))
		if err != nil {
			return err
		}
		if answer = strings.TrimSpace(answer); answer != "ok" {
			return fmt.Errorf("%s %s: %s", what, name, answer)
		}
	}
	return nil
}

// calm says whether no order whose message was acknowledged is overdue by more than a second.
func (i *injection) calm() bool {
	now := history.Now() // what falls due while the history is read is not in it
	events, err := history.Read(i.HistoryDir())
	return err == nil && checker.Overdue(events, now-time.Second.Microseconds()) == 0
}
