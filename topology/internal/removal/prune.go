package removal

import (
	"context"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/topology/internal/rabbitmq"
)

const (
	pruneInterval = 2 * time.Second
	// settleTimes is for how many times SettleTime Prune goes on after its wait, while only
	// the statistics are not new enough: an entry takes one for the inbox and one for the lanes,
	// and a queue that is new has none for a while.
	settleTimes = 10
)

// Names names the exchanges and queues of a topology.
type Names interface {
	Inbox() string
	// EntryExchangeOf and ReadyExchangeOf name the exchanges of an entry; "" is the default
	// one.
	EntryExchangeOf(entry string) string
	ReadyExchangeOf(entry string) string
	// TierOf returns the TTL of the tier that a queue is by its name.
	TierOf(queue string) (ttl time.Duration, ok bool)
}

// Pruning says what [Prune] goes by beside the broker.
type Pruning struct {
	Names
	// Configured are the entries beside the default one that stay.
	Configured []string
	// Due are the exchanges by which messages leave the tiers and lanes that entries share,
	// each before those it leads to. They go with the last entry.
	Due []string
	// Left returns which queues, and which entries, an earlier configuration has left, of
	// what there is on the broker.
	Left func(map[string]rabbitmq.Queue, map[string]rabbitmq.Exchange) (queues, entries []string)
	// IsWaiting reports whether a tier or a lane has that name, as have its queue and its
	// exchange.
	IsWaiting func(name string) bool
	// IsShared reports whether a queue is a tier or a lane that entries share.
	IsShared func(rabbitmq.Queue) bool
	// SettleTime is how old statistics may be, and more.
	SettleTime time.Duration

	// Wait is how long Prune waits for what is not empty yet.
	Wait time.Duration
	// DryRun changes nothing.
	DryRun bool
	// Named are entries that are removed even if they are in use.
	Named []string
	// Force removes also what others would put back, and tiers and lanes into whose
	// exchanges others publish.
	Force bool
	// PutBack says which bridges would put back queues and entries that are to go: by an
	// error, which ends Prune, or of a dry run by what is left. It is not asked with Force.
	PutBack func(ctx context.Context, queues, entries []string) (left []Change, err error)
	// Parked returns how many messages of an entry wait in Redis. Without it, the ready
	// exchanges of entries stay.
	Parked func(ctx context.Context, entry string) (int, error)
	// Progress is told what Prune waits for, each time that it has looked. Defaults to nothing.
	Progress func([]Change)
}

// Prune removes what is left, once it is empty. It returns what it has removed, in this
// order, and what is left, also with an error.
func Prune(ctx context.Context, channels rabbitmq.Channels, m rabbitmq.Management, o Pruning) (removed, left []Change, err error) {
	p := &pruning{
		Pruning: o, channels: channels, session: rabbitmq.NewSession(channels), management: m,
		closed: map[string]time.Time{}, taken: map[string]time.Time{}, passed: map[passage]time.Time{},
	}
	defer func() { p.session.Close() }()
	err = p.run(ctx)
	return p.changes, p.left, err
}

type pruning struct {
	Pruning
	channels   rabbitmq.Channels
	session    *rabbitmq.Session
	management rabbitmq.Management

	closed map[string]time.Time  // since when nothing leads to a queue, or into an entry exchange
	taken  map[string]time.Time  // since when neither the inbox nor Redis has messages of an entry
	passed map[passage]time.Time // an entry's messages have left a queue, of those that came until then

	// What the last look has found.
	queues                  map[string]rabbitmq.Queue
	exchanges               map[string]rabbitmq.Exchange
	bindings                []rabbitmq.Binding
	leftQueues, leftEntries []string // by an earlier configuration
	counted                 bool     // the broker counts what exchanges get
	settling                bool     // only the statistics are not new enough

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
		waited := time.Since(began) - p.Wait
		if len(p.left) == 0 || p.DryRun || p.hopeless() || waited >= 0 && (!p.settling || waited > settleTimes*p.SettleTime) {
			return nil
		}
		if p.Progress != nil {
			p.Progress(p.left)
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
	return !slices.ContainsFunc(p.left, func(l Change) bool { return l.Action == ActionWait })
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
	p.leftQueues, p.leftEntries = p.Left(p.queues, p.exchanges)
	var overview struct {
		RatesMode string `json:"rates_mode"`
	}
	err = p.management.Get(ctx, "overview", &overview)
	p.counted = overview.RatesMode != "none"
	return err
}

// step closes what is to go, and removes what is empty.
func (p *pruning) step(ctx context.Context) error {
	var going, kept []string
	for _, entry := range p.leftEntries {
		if use, passes := p.uses(entry); use != "" && !slices.Contains(p.Named, entry) {
			kept = append(kept, entry)
			use += "; name the entry to remove it all the same"
			if passes {
				p.wait(rabbitmq.KindExchange, p.nameOf(entry), use)
			} else {
				p.keep(rabbitmq.KindExchange, p.nameOf(entry), use)
			}
			continue
		}
		going = append(going, entry)
	}
	if err := p.checkBridges(ctx, going); err != nil {
		return err
	}
	for _, entry := range going {
		if err := p.closeEntry(ctx, entry); err != nil {
			return err
		}
		if err := p.awaitTaken(ctx, entry); err != nil {
			return err
		}
	}
	for _, name := range p.leftQueues {
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
	for _, entry := range going {
		if err := p.pruneReady(ctx, entry); err != nil {
			return err
		}
	}
	return nil
}

// checkBridges asks which bridges would put back what is to go.
func (p *pruning) checkBridges(ctx context.Context, going []string) error {
	if p.Force || len(p.leftQueues)+len(going) == 0 {
		return nil
	}
	left, err := p.PutBack(ctx, p.leftQueues, going)
	p.left = append(p.left, left...)
	return err
}
