package topology

import (
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology/internal/rabbitmq"
)

// Exchange is one exchange of the description. All exchanges are durable and
// none deletes itself.
type Exchange struct {
	Name  string
	Kind  string // amqp.ExchangeHeaders, ExchangeTopic, ExchangeFanout or ExchangeDirect
	Args  amqp.Table
	About string // for people: see about.go
}

// Queue is one queue of the description. All queues are durable quorum queues.
type Queue struct {
	Name  string
	Args  amqp.Table
	About string // for people: see about.go
}

// Binding leads from an exchange to a queue, or to another exchange.
type Binding struct {
	Source      string
	Destination string
	ToExchange  bool // Destination names an exchange
	Key         string
	Args        amqp.Table
}

// Exchanges returns every exchange, in the order in which to declare them: each
// comes after those it leads to, so the entry exchanges are the last.
func (t *Topology) Exchanges() []Exchange {
	door := func(queue string) Exchange {
		return Exchange{Name: queue, Kind: amqp.ExchangeFanout, About: t.aboutDoor(queue)}
	}
	exchanges := []Exchange{door(t.Unrouted()), door(t.Quarantine()), door(t.Inbox()), door(t.Command()), door(t.Installation())}
	for _, e := range t.allEntries() {
		exchanges = append(exchanges, Exchange{
			Name: t.ReadyExchangeOf(e.Name), Kind: e.Kind, Args: amqp.Table{rabbitmq.ArgAlternate: t.Unrouted()},
			About: t.aboutReady(t.EntryExchangeOf(e.Name)),
		})
	}
	exchanges = append(exchanges, Exchange{
		Name: t.RetryExchange(), Kind: amqp.ExchangeDirect, Args: amqp.Table{rabbitmq.ArgAlternate: t.Unrouted()}, About: t.aboutRetry(),
	})
	if len(t.entries) > 0 {
		exchanges = append(exchanges, t.dueExchanges()...)
	}
	for _, q := range t.waitingQueues() {
		exchanges = append(exchanges, door(q.Name))
	}
	for _, e := range t.allEntries() {
		exchanges = append(exchanges, Exchange{
			Name: t.EntryExchangeOf(e.Name), Kind: amqp.ExchangeHeaders, Args: amqp.Table{rabbitmq.ArgAlternate: t.Inbox()},
			About: t.aboutEntry(t.ReadyExchangeOf(e.Name), e.Tracked),
		})
	}
	return exchanges
}

// Queues returns every queue.
func (t *Topology) Queues() []Queue {
	return append([]Queue{
		{Name: t.Unrouted(), Args: keeping(), About: t.aboutUnrouted()},
		{Name: t.Quarantine(), Args: keeping(), About: t.aboutQuarantine()},
		{Name: t.Inbox(), Args: intake(t.Quarantine()), About: t.aboutInbox()},
		{Name: t.Command(), Args: intake(t.Quarantine()), About: t.aboutCommand()},
		{Name: t.Installation(), Args: keeping(), About: t.aboutInstallation()},
	}, t.waitingQueues()...)
}

// waitingQueues returns the tiers and the lanes. The default entry has its own,
// since the way out of the others' costs the broker more: of a tier on RabbitMQ 3.10,
// half its rate. Their arguments do not depend on which entries there are: they
// cannot be changed.
func (t *Topology) waitingQueues() []Queue {
	queues := t.waitingQueuesOf("", t.ReadyExchange(), t.ReadyExchange())
	if len(t.entries) > 0 {
		queues = append(queues, t.waitingQueuesOf(t.entries[0].Name, t.dueTiers(), t.dueLanes())...)
	}
	return queues
}

func (t *Topology) waitingQueuesOf(entry, tiersLeadTo, lanesLeadTo string) []Queue {
	var queues []Queue
	for _, tier := range t.tiers {
		queues = append(queues, Queue{
			Name: t.tierOf(entry, tier.TTL), Args: waiting(tier.TTL.Milliseconds(), tiersLeadTo), About: t.aboutTier(tier.TTL, tiersLeadTo),
		})
	}
	for _, ttl := range t.Leads() {
		for shard := range t.shards {
			queues = append(queues, Queue{
				Name: t.LaneOf(entry, ttl, shard), Args: waiting(ttl.Milliseconds(), lanesLeadTo), About: t.aboutLane(ttl, shard, lanesLeadTo),
			})
		}
	}
	return queues
}

// Bindings returns every binding.
func (t *Topology) Bindings() []Binding {
	var bindings []Binding
	for _, q := range t.Queues() {
		bindings = append(bindings, Binding{Source: q.Name, Destination: q.Name})
	}
	bindings = append(bindings, t.dueBindings()...)
	for _, e := range t.allEntries() {
		if !e.Tracked {
			bindings = append(bindings, t.shortcuts(e.Name)...)
		}
	}
	return bindings
}

// WithBindings returns a description that also has bindings, from exchanges of t
// to queues and exchanges of others. Apply makes them before it creates an entry
// exchange, so that nothing can enter that does not find them.
//
// Plan and Apply report with a [*MissingError] which of their ends are not there,
// and with a [*PermissionError] where the user may not bind them. RabbitMQ 4.3
// lets only those look who may configure a queue or exchange; without, Apply stops
// at the first that is missing, before it creates an entry exchange. Verify, Repair
// and Delete take no notice of them: they are others' affair.
func (t *Topology) WithBindings(bindings ...Binding) *Topology {
	wider := *t
	wider.outward = slices.Clone(bindings)
	return &wider
}

// shortcuts are the bindings by which the broker alone serves what is published to an
// entry exchange. A tracked entry has none of them, so that all of it takes the
// alternate exchange, to the inbox.
func (t *Topology) shortcuts(entry string) []Binding {
	source := t.EntryExchangeOf(entry)
	bindings := []Binding{{
		Source: source, Destination: t.ReadyExchangeOf(entry), ToExchange: true, Args: matching(headerDelay, int64(0)),
	}}
	for _, tier := range t.tiers {
		bindings = append(bindings, Binding{
			Source: source, Destination: t.tierOf(entry, tier.TTL), Args: matching(headerDelay, tier.TTL.Milliseconds()),
		})
	}
	return bindings
}

// bypasses are the bindings that Apply and Repair remove: the shortcuts that a tracked
// entry has left from before it was one. Until they are gone, what matches them still
// comes out when it is due.
func (t *Topology) bypasses() []Binding {
	var bindings []Binding
	for _, e := range t.allEntries() {
		if e.Tracked {
			bindings = append(bindings, t.shortcuts(e.Name)...)
		}
	}
	return bindings
}

// bindingsOf returns the bindings that x is the source of.
func (t *Topology) bindingsOf(x Exchange) []Binding {
	return slices.DeleteFunc(t.Bindings(), func(b Binding) bool { return b.Source != x.Name })
}

func (t *Topology) describes(i id) bool {
	if i.kind == kindQueue {
		return slices.ContainsFunc(t.Queues(), func(q Queue) bool { return q.Name == i.name })
	}
	return slices.ContainsFunc(t.Exchanges(), func(x Exchange) bool { return x.Name == i.name })
}

// isEntry reports whether an entry exchange has that name.
func (t *Topology) isEntry(exchange string) bool {
	return slices.ContainsFunc(t.allEntries(), func(e Entry) bool { return t.EntryExchangeOf(e.Name) == exchange })
}

// Values of arguments. Integers are int64 on purpose: amqp091-go sends a Go int as
// 32 bits.
const (
	matchAllWithX       = "all-with-x"
	noDeliveryLimit     = int64(1<<31 - 1)
	inboxDeliveryLimit  = int64(20)
	strategyAtLeastOnce = "at-least-once"
	overflowReject      = "reject-publish"
)

// waiting is the argument list of a queue that messages leave only when their
// TTL is over. At-least-once dead-lettering needs every one of these; with
// another overflow the broker silently falls back to at-most-once. The delivery
// limit is out of reach because each look at a message in the management UI
// counts as a delivery, and beyond the limit (20 by default since 4.0) the
// message would be dead-lettered before its time.
func waiting(ttlMS int64, deadLetterTo string) amqp.Table {
	return amqp.Table{
		rabbitmq.ArgQueueType:     "quorum",
		rabbitmq.ArgMessageTTL:    ttlMS,
		rabbitmq.ArgDeadLetter:    deadLetterTo,
		rabbitmq.ArgStrategy:      strategyAtLeastOnce,
		rabbitmq.ArgOverflow:      overflowReject,
		rabbitmq.ArgDeliveryLimit: noDeliveryLimit,
	}
}

// keeping is the argument list of a queue that keeps messages for people. Its
// delivery limit is out of reach because the broker drops what exceeds it.
func keeping() amqp.Table {
	return amqp.Table{rabbitmq.ArgQueueType: "quorum", rabbitmq.ArgDeliveryLimit: noDeliveryLimit}
}

// intake is the argument list of what bridges consume, the inbox and the commands: a message that breaks its consumer
// again and again ends in quarantine, raw, instead of being dropped.
func intake(quarantine string) amqp.Table {
	return amqp.Table{
		rabbitmq.ArgQueueType:     "quorum",
		rabbitmq.ArgDeadLetter:    quarantine,
		rabbitmq.ArgStrategy:      strategyAtLeastOnce,
		rabbitmq.ArgOverflow:      overflowReject,
		rabbitmq.ArgDeliveryLimit: inboxDeliveryLimit,
	}
}

func (x Exchange) details() string {
	if len(x.Args) == 0 {
		return x.Kind
	}
	return x.Kind + ", " + rabbitmq.Details(x.Args)
}

func (b Binding) name() string { return b.Source + " -> " + b.Destination }

func (b Binding) destination() id {
	if b.ToExchange {
		return id{kindExchange, b.Destination}
	}
	return id{kindQueue, b.Destination}
}

func (b Binding) details() string { return rabbitmq.BindingDetails(b.Key, b.Args) }

// property is the value that the broker's name for an argument or a property
// stands for.
func (q Queue) property(name string) string { return property(q.Args, name) }

func (x Exchange) property(name string) string {
	if name == "type" {
		return x.Kind
	}
	return property(x.Args, name)
}

func property(args amqp.Table, name string) string {
	switch name {
	case "durable":
		return "true"
	case "auto_delete", "internal", "exclusive":
		return "false"
	}
	if value, ok := args[name]; ok {
		return fmt.Sprint(value)
	}
	return rabbitmq.None
}
