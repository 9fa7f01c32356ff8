package topology

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology/internal/rabbitmq"
)

// PruneOptions says what [Topology.Prune] goes by beside the broker.
type PruneOptions struct {
	// Wait is how long Prune waits for what is not empty yet. With 0 it removes what is empty,
	// for which it watches for a few times [SettleTime].
	Wait time.Duration
	// DryRun changes nothing.
	DryRun bool
	// Entries are removed even if they are in use: they have publishers, or queues that are
	// bound to their ready exchanges.
	Entries []string
	// Force removes also what a bridge with another configuration would put back, and tiers
	// and lanes into whose exchanges others publish.
	Force bool
	// Bridges returns the descriptions that the bridges at work go by, by the bridge's name;
	// nil where that is not known. Without Force, Prune ends with a [*BridgesError] where one
	// of them has what is to go. Defaults to no bridges.
	Bridges func(context.Context) (map[string]*Topology, error)
	// Parked returns how many messages of an entry wait in Redis. Without it, the ready
	// exchanges of entries stay.
	Parked func(ctx context.Context, entry string) (int, error)
	// Progress is told what Prune waits for, each time that it has looked. Defaults to nothing.
	Progress func([]Change)
}

// BridgesError says which bridges would put back what is to be removed, and what each has of it.
type BridgesError struct{ Bridges map[string][]string }

func (e *BridgesError) Error() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(e.Bridges)) {
		parts = append(parts, "bridge "+name+" "+hasOf(e.Bridges[name]))
	}
	return strings.Join(parts, "; ") + ": restart it with this configuration first, since it would put that back"
}

// hasOf says what a bridge has of what is to go; none means that its configuration is unknown.
func hasOf(names []string) string {
	const most = 3
	switch {
	case len(names) == 0:
		return "does not tell its configuration"
	case len(names) > most:
		return fmt.Sprintf("has %s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return "has " + strings.Join(names, ", ")
}

const (
	pruneInterval = 2 * time.Second
	// settleTimes is for how many times SettleTime Prune goes on after its wait, while only
	// the statistics are not new enough: an entry takes one for the inbox and one for the lanes,
	// and a queue that is new has none for a while.
	settleTimes = 10
)

// Prune removes the tiers, lanes and entries that an earlier configuration with the same
// prefix has left, once they are empty. It changes nothing of what t describes, and messages
// go on to flow meanwhile.
//
// Of a tier or a lane it first removes the exchange and the bindings that lead into its
// queue: what its tier would have taken goes to the inbox then. Only when the queue is empty
// it deletes that: by AMQP, and by statistics of the management API that are newer, which
// count dead letters that are not confirmed yet. Of an entry it deletes the entry exchange
// first, and the ready exchange when the inbox, Redis, and the tiers and lanes that it shares with
// other entries have none of its messages any more. Of a shared queue that is known when the
// queue is seen empty, or when its TTL has passed.
//
// A publisher that still uses what was removed is refused with 404, and loses nothing. An
// entry that is in use stays, unless o names it. Prune may be interrupted at any point: another
// call goes on.
//
// It returns what it has removed, in this order, and what is left, also with an error; of a dry run, what it would
// remove, and what it would have to wait for. The Action of what is left is wait, or keep where others
// use it, so that waiting does not help. Its Details say why, and of a dry run its Kind may also be bridge.
func (t *Topology) Prune(ctx context.Context, channels Channels, m *Management, o PruneOptions) (removed, left []Change, err error) {
	p := &pruning{
		t: t, channels: channels, session: rabbitmq.NewSession(channels), management: m, options: o,
		closed: map[string]time.Time{}, taken: map[string]time.Time{}, passed: map[passage]time.Time{},
	}
	defer func() { p.session.Close() }()
	for _, entry := range o.Entries {
		if t.HasEntry(entry) {
			return nil, nil, fmt.Errorf("topology: entry %q is configured, so that it cannot be pruned", entry)
		}
	}
	if err = p.run(ctx); err != nil {
		err = fmt.Errorf("topology: %w", err)
	}
	return p.changes, p.left, err
}

type pruning struct {
	t          *Topology
	channels   Channels
	session    *rabbitmq.Session
	management *Management
	options    PruneOptions

	closed map[string]time.Time  // since when nothing leads to a queue, or into an entry exchange
	taken  map[string]time.Time  // since when neither the inbox nor Redis has messages of an entry
	passed map[passage]time.Time // an entry's messages have left a queue, of those that came until then

	// What the last look has found.
	queues    map[string]rabbitmq.Queue
	exchanges map[string]rabbitmq.Exchange
	bindings  []rabbitmq.Binding
	wider     *Topology // t, and the entries that are left
	counted   bool      // the broker counts what exchanges get
	settling  bool      // only the statistics are not new enough

	changes []Change
	left    []Change
}

// passage is that of an entry's messages through a queue.
type passage struct{ entry, queue string }

func (p *pruning) run(ctx context.Context) error {
	began := time.Now()
	for {
		if err := p.look(ctx); err != nil {
			return err
		}
		if err := p.step(ctx); err != nil {
			return err
		}
		waited := time.Since(began) - p.options.Wait
		if len(p.left) == 0 || p.options.DryRun || p.hopeless() || waited >= 0 && (!p.settling || waited > settleTimes*SettleTime) {
			return nil
		}
		if p.options.Progress != nil {
			p.options.Progress(p.left)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pruneInterval):
		}
	}
}

// hopeless reports whether nothing is left that waiting helps.
func (p *pruning) hopeless() bool {
	return !slices.ContainsFunc(p.left, func(l Change) bool { return l.Action == actionWait })
}

func (p *pruning) look(ctx context.Context) (err error) {
	p.left, p.settling = nil, false
	if p.queues, err = rabbitmq.Queues(ctx, p.management); err != nil {
		return err
	}
	if p.exchanges, err = rabbitmq.Exchanges(ctx, p.management); err != nil {
		return err
	}
	if p.bindings, err = rabbitmq.Bindings(ctx, p.management); err != nil {
		return err
	}
	p.wider = p.t.withLeftEntries(p.exchanges)
	var overview struct {
		RatesMode string `json:"rates_mode"`
	}
	err = p.management.Get(ctx, "overview", &overview)
	p.counted = overview.RatesMode != "none"
	return err
}

// step closes what is to go, and removes what is empty.
func (p *pruning) step(ctx context.Context) error {
	var going, kept []Entry
	for _, e := range p.wider.entries[len(p.t.entries):] {
		if use, passes := p.uses(e.Name); use != "" && !slices.Contains(p.options.Entries, e.Name) {
			kept = append(kept, e)
			use += "; name the entry to remove it all the same"
			if passes {
				p.wait(kindExchange, p.nameOf(e.Name), use)
			} else {
				p.keep(kindExchange, p.nameOf(e.Name), use)
			}
			continue
		}
		going = append(going, e)
	}
	leftovers := p.t.leftovers(p.queues)
	if err := p.checkBridges(ctx, leftovers, going); err != nil {
		return err
	}
	for _, e := range going {
		if err := p.closeEntry(ctx, e.Name); err != nil {
			return err
		}
		if err := p.awaitTaken(ctx, e.Name); err != nil {
			return err
		}
	}
	for _, name := range leftovers {
		if p.entriesNeed(name, going, kept) {
			continue
		}
		if err := p.pruneQueue(ctx, name); err != nil {
			return err
		}
	}
	if err := p.pruneDue(ctx, kept); err != nil {
		return err
	}
	for _, e := range going {
		if err := p.pruneReady(ctx, e.Name); err != nil {
			return err
		}
	}
	return nil
}

// checkBridges returns a BridgesError where a bridge would put back what is to go.
func (p *pruning) checkBridges(ctx context.Context, leftovers []string, going []Entry) error {
	if p.options.Force || p.options.Bridges == nil || len(leftovers)+len(going) == 0 {
		return nil
	}
	bridges, err := p.options.Bridges(ctx)
	if err != nil {
		return err
	}
	others := map[string][]string{}
	for name, other := range bridges {
		if other == nil {
			others[name] = nil
			continue
		}
		var has []string
		for _, queue := range leftovers {
			if other.describes(id{kindQueue, queue}) {
				has = append(has, queue)
			}
		}
		for _, e := range going {
			if other.HasEntry(e.Name) {
				has = append(has, other.EntryExchangeOf(e.Name))
			}
		}
		if len(has) > 0 {
			others[name] = has
		}
	}
	switch {
	case len(others) == 0:
		return nil
	case !p.options.DryRun:
		return &BridgesError{others}
	}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		p.wait("bridge", name, "it "+hasOf(others[name])+", and would put that back")
	}
	return nil
}

// pruneQueue closes a tier or lane, and deletes it when it is empty.
func (p *pruning) pruneQueue(ctx context.Context, name string) error {
	x, there := p.exchanges[name]
	if there && x.Stats.In.Rate > 0 && !p.options.Force {
		p.wait(kindExchange, name, fmt.Sprintf("it gets %.3g messages a second: a publisher has another configuration", x.Stats.In.Rate))
		return nil
	}
	for _, b := range p.bindings {
		if leadsTo(name, b) && !p.isOurs(b.Source) && !p.options.Force {
			p.keep(kindQueue, name, "exchange "+b.Source+" leads to it")
			return nil
		}
	}
	reopened, err := p.closeQueue(ctx, name)
	if err != nil {
		return err
	}
	if _, known := p.closed[name]; reopened || !known {
		p.closed[name] = time.Now()
	}
	why, err := p.holds(ctx, name, p.closed[name])
	if err != nil {
		return err
	}
	if why != "" {
		p.wait(kindQueue, name, why)
		if !p.options.DryRun {
			return nil
		}
	}
	return p.deleteQueue(ctx, name)
}

// closeQueue removes what leads into a queue: the bindings of entry exchanges first, so that what
// they would take goes to the inbox, and then the exchange of the same name. It reports whether
// there was any.
func (p *pruning) closeQueue(ctx context.Context, name string) (open bool, err error) {
	for _, b := range p.bindings {
		if !leadsTo(name, b) || !p.wider.isEntry(b.Source) {
			continue
		}
		open = true
		if err := p.unbind(ctx, b); err != nil {
			return open, err
		}
	}
	if x, there := p.exchanges[name]; there && x.Type == amqp.ExchangeFanout {
		open = true
		err = p.deleteExchange(ctx, x)
	}
	return open, err
}

// leadsTo reports whether a binding leads to a queue, other than that which each queue has by its name.
func leadsTo(queue string, b rabbitmq.Binding) bool {
	return b.DestinationType == kindQueue && b.Destination == queue && b.Source != ""
}

// isOurs reports whether an exchange is an entry exchange, or that of a tier or lane.
func (p *pruning) isOurs(exchange string) bool {
	return p.t.waits(exchange) || p.wider.isEntry(exchange)
}

// holds says what a queue to which nothing leads since an instant has still, or nothing.
func (p *pruning) holds(ctx context.Context, name string, since time.Time) (why string, err error) {
	ready, err := p.session.Count(ctx, name)
	switch {
	case errors.Is(err, rabbitmq.ErrSilent):
		p.session = rabbitmq.NewSession(p.channels)
		return "it does not answer", nil
	case err != nil && !rabbitmq.Answered(err, amqp.NotFound):
		return "", fmt.Errorf("queue %s: %w", name, err)
	}
	all := p.queues[name].Messages
	switch {
	case all == nil: // as of a queue that is new
		p.settling = true
		return "the management API does not know what it holds: is its leader up, and is the collection of statistics on?", nil
	case ready > 0 || *all > 0:
		return fmt.Sprintf("it has %d messages", max(ready, *all)), nil
	case time.Since(since) < SettleTime && !p.options.DryRun:
		p.settling = true
		return fmt.Sprintf("it is watched for %v", SettleTime), nil
	}
	return "", nil
}

func (p *pruning) wait(kind, name, reason string) {
	p.left = append(p.left, Change{actionWait, kind, name, reason})
}

func (p *pruning) keep(kind, name, reason string) {
	p.left = append(p.left, Change{actionKeep, kind, name, reason})
}

func (p *pruning) deleted(kind, name, details string) {
	p.changes = append(p.changes, Change{actionDelete, kind, name, details})
}

// do changes something on the broker, but for a dry run.
func (p *pruning) do(ctx context.Context, change func(*amqp.Channel) error) error {
	if p.options.DryRun {
		return nil
	}
	return p.session.Do(ctx, change)
}

func (p *pruning) unbind(ctx context.Context, b rabbitmq.Binding) error {
	args := amqp.Table{}
	for name, value := range b.Arguments {
		if n, is := rabbitmq.Number(value); is {
			value = n
		}
		args[name] = value
	}
	err := p.do(ctx, func(ch *amqp.Channel) error { return ch.QueueUnbind(b.Destination, b.RoutingKey, b.Source, args) })
	if err != nil {
		return fmt.Errorf("binding %s: %w", b.Name(), err)
	}
	p.deleted(kindBinding, b.Name(), b.Details())
	return nil
}

func (p *pruning) deleteExchange(ctx context.Context, x rabbitmq.Exchange) error {
	err := p.do(ctx, func(ch *amqp.Channel) error { return ch.ExchangeDelete(x.Name, false, false) })
	if err != nil {
		return fmt.Errorf("exchange %s: %w", x.Name, err)
	}
	p.deleted(kindExchange, x.Name, x.Type)
	return nil
}

// deleteQueue deletes an empty queue to which nothing leads. A process with another
// configuration may have opened it again since it was looked at.
func (p *pruning) deleteQueue(ctx context.Context, name string) error {
	lost := 0
	err := p.do(ctx, func(ch *amqp.Channel) (err error) {
		lost, err = ch.QueueDelete(name, false, false, false)
		return err
	})
	if err != nil {
		return fmt.Errorf("queue %s: %w", name, err)
	}
	delete(p.queues, name)
	if lost > 0 {
		p.deleted(kindQueue, name, fmt.Sprintf("with %d messages", lost))
		return fmt.Errorf("queue %s was deleted with messages that have come to it meanwhile (%d): a process with another configuration publishes there", name, lost)
	}
	details := "empty"
	if p.options.DryRun {
		details = "once it is empty"
	}
	p.deleted(kindQueue, name, details)
	return nil
}
