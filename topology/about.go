package topology

import (
	"fmt"
	"maps"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/wire"
)

// argAbout is an argument of every queue and exchange that says, to who looks at it in
// the management UI, what it is for. RabbitMQ compares only arguments that it knows when
// something is declared again, so a topology of an earlier release goes on without it:
// an argument cannot be added to what exists.
const argAbout = "about"

// described returns the arguments to declare with.
func described(args amqp.Table, about string) amqp.Table {
	if about == "" {
		return args
	}
	all := make(amqp.Table, len(args)+1)
	maps.Copy(all, args)
	all[argAbout] = about
	return all
}

// What a tier or lane holds does not depend on which entries there are, as nothing of
// it does (waitingQueues).

func (t *Topology) aboutTier(ttl time.Duration, leadsTo string) string {
	return fmt.Sprintf("A tier: each message stays for exactly %s and then leaves by itself to %s. Do not consume from it.", wire.TTLName(ttl), leadsTo)
}

func (t *Topology) aboutLane(ttl time.Duration, shard int, leadsTo string) string {
	return fmt.Sprintf("A lane: messages that were parked in Redis (shard %d) spend their last %s here, or what is left of it, and then leave by themselves to %s. Do not consume from it.",
		shard, wire.TTLName(ttl), leadsTo)
}

func (t *Topology) aboutInbox() string {
	return "Messages whose delay equals no tier: a bridge takes them in and parks them in Redis. If they pile up, no bridge runs, or Redis does not answer."
}

func (t *Topology) aboutCommand() string {
	return "Commands to cancel, reschedule or look up messages: a bridge carries them out, and answers where reply-to says. Permit writing to the exchange of this name only to those who may."
}

func (t *Topology) aboutInstallation() string {
	return "One message, by which bridges notice a Redis that was emptied, that was restored from an older backup, or that is another installation's. Leave it alone."
}

func (t *Topology) aboutUnrouted() string {
	return "Messages that are due, and for whose routing key nobody has bound a queue."
}

func (t *Topology) aboutQuarantine() string {
	return "Messages that could not be processed, each with the reason in its header x-delaybridge-error: see 'delaybridge quarantine list'."
}

func (t *Topology) aboutEntry(ready string, tracked bool) string {
	if tracked {
		return fmt.Sprintf("Publish here, with the delay in header x-delay (milliseconds) or x-deliver-at (Unix milliseconds), or name it as the dead-letter exchange of a queue. Everything is parked in Redis. What is due comes out of %s.", ready)
	}
	return fmt.Sprintf("Publish here, with the delay in header x-delay (milliseconds) or x-deliver-at (Unix milliseconds). What is due comes out of %s.", ready)
}

func (t *Topology) aboutReady(entry string) string {
	return fmt.Sprintf("Bind your queue here: messages that are due come out, with the routing key that they were published with to %s.", entry)
}

func (t *Topology) aboutRetry() string {
	return "Leads each message that is to be tried again back to the queue whose consumer could not handle it. The bindings are the consumers'."
}

func (t *Topology) aboutDue() string {
	return "Between the tiers and lanes of the entries and their ready exchanges: leads each message to that of its own entry. Leave it alone."
}

func (t *Topology) aboutDoor(queue string) string {
	return "The way into queue " + queue + ", which leaves the routing key as it is."
}
