package redisbridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/topology"
)

// Bounds of a search, and their defaults.
const (
	// DefaultSearchMessages is the default of SearchBounds.Messages, and
	// MaxSearchMessages what it may be: AMQP counts what is in hand in 16 bits, and a
	// search may have to hold a few more than the one before.
	DefaultSearchMessages = 10_000
	MaxSearchMessages     = 60_000
	maxPrefetch           = 1<<16 - 1
	// DefaultSearchTime is the default of SearchBounds.Time.
	DefaultSearchTime = 2 * time.Second
)

const (
	// searchPatience is how long a search waits for another one to end.
	searchPatience = time.Minute
	searchRetry    = time.Second // at most; RabbitMQ logs each question that it refuses
	// searchPoll is after how long without a message a search asks whether there are
	// any. So many times in a row it has to hear that there are none, since what is on
	// its way here counts as gone.
	searchPoll = 50 * time.Millisecond
	timesNone  = 3
	// carriesAtOnce is how many messages are parked at a time, which then share flushes
	// to disk, and carryGrace how long after the search's time they may take.
	carriesAtOnce = 32
	carryGrace    = time.Second
	// leaveTimeout is how long to wait for what goes back to its tier.
	leaveTimeout = 5 * time.Second
	leavePoll    = 5 * time.Millisecond
)

// So many acknowledgements the broker sends on to a quorum queue at least, whatever the
// queue has answered; then it keeps them. And so many questions, one after the other,
// have it send on the rest, and see it there.
const (
	acksSentOn   = 16
	acksBarriers = 3
)

// searchTag names the consumers of a search. RabbitMQ 3.10 gives back what several held in
// the order of their names.
func searchTag(n int) string { return fmt.Sprintf("search %d", n) }

// ErrSearchCut means that a search has lost its channel. The tiers have back what it held.
var ErrSearchCut = errors.New("the search was cut short; reschedule again")

// SearchBounds limit what [Park.SearchTiers] does to a tier: what it holds does not
// expire, so what is due meanwhile is late by that.
type SearchBounds struct {
	// Messages is how many messages of a tier are held at most: as many as a search sees,
	// those that are due next. Where an earlier search has held more, and those may still
	// be in the tier, it is as many. Defaults to DefaultSearchMessages, at most
	// MaxSearchMessages.
	Messages int
	// Time is how long they are held. Defaults to DefaultSearchTime.
	Time time.Duration
}

func (s SearchBounds) orDefaults() (SearchBounds, error) {
	var faults []error
	if s.Messages < 0 || s.Messages > MaxSearchMessages {
		faults = append(faults, fmt.Errorf("%w: a search that holds %d messages: use 1 to %d, or 0 for %d", ErrInvalid, s.Messages, MaxSearchMessages, DefaultSearchMessages))
	}
	if s.Time < 0 {
		faults = append(faults, fmt.Errorf("%w: a search that holds messages for %v: use more than 0, or 0 for %v", ErrInvalid, s.Time, DefaultSearchTime))
	}
	if s.Messages == 0 {
		s.Messages = DefaultSearchMessages
	}
	if s.Time == 0 {
		s.Time = DefaultSearchTime
	}
	return s, errors.Join(faults...)
}

// Search is what [Park.SearchTiers] has come to.
type Search struct {
	// Found has the TTL of the tier that each message was in. All others were not
	// found.
	Found map[string]time.Duration
	// Looked is how many messages were looked at.
	Looked int
	// Unfinished are the tiers that a bound kept from being seen through, by the names
	// of their queues.
	Unfinished []string
}

// SearchTiers brings messages forward that lie in tiers, where Redis knows nothing of
// them: it is for the IDs for which [Park.Reschedule] has answered Unknown. Each one that
// is found is parked until its new due time, and then taken out of its tier. If the
// search dies in between, both are there, and the consumer drops the one from the tier,
// if it asks [Park.Arrive]: so the message fires once, at its new time.
//
// It goes once through each tier whose TTL is longer than the shortest new delay, however
// many IDs there are: what is in any other comes out before its new time, and is parked
// again by its consumer. Only what nothing at all is known of is searched for. What is not
// found stays Unknown. It may come out while the search goes on, or be in the inbox or in
// its consumer's queue.
//
// While it goes through a tier, a search holds what it has seen there, within bounds,
// and then gives it back in order. One search runs at a time in a topology; others wait
// for it, for up to a minute. For that it declares an exclusive queue, and so needs
// permission to configure, besides that to read tiers.
//
// It returns what it has found with an error, too. The error wraps ErrInvalid where
// bounds are no bounds, ErrSearchCut where a channel was lost, and the errors of Park
// where it could not park something; calling it again is harmless.
func (p *Park) SearchTiers(ctx context.Context, channels topology.Channels, ids []string, bounds SearchBounds) (Search, error) {
	s := search{park: p, channels: channels, wanted: map[string]time.Duration{}, Search: Search{Found: map[string]time.Duration{}}}
	var err error
	if s.bounds, err = bounds.orDefaults(); err == nil {
		err = s.run(ctx, ids)
	}
	if err != nil {
		return s.Search, fmt.Errorf("search the tiers: %w", err)
	}
	return s.Search, nil
}

type search struct {
	Search
	park     *Park
	channels topology.Channels
	bounds   SearchBounds
	wanted   map[string]time.Duration // ID -> its new delay
	asking   *amqp.Channel            // holds the lock, and consumes nothing of a tier
	unlocked chan *amqp.Error         // has the reason why it is closed
}

func (s *search) run(ctx context.Context, ids []string) error {
	for _, id := range ids {
		e, known, err := s.park.Look(ctx, id)
		if err != nil {
			return err
		}
		if known && e.State == StateMoved && e.Published.IsZero() {
			s.wanted[id] = e.Due.Sub(e.Rescheduled)
		}
	}
	if len(s.tiers()) == 0 {
		return nil
	}
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer func() { _ = s.asking.Close() }()
	for _, tier := range s.tiers() {
		if !s.mayHave(tier) { // any more
			continue
		}
		if err := s.through(ctx, tier); err != nil {
			return fmt.Errorf("%s: %w", tier.Name, err)
		}
	}
	return nil
}

// tiers returns those that may have something that is wanted.
func (s *search) tiers() []topology.Tier {
	var tiers []topology.Tier
	for _, tier := range s.park.config.Topology.TierQueues() {
		if s.mayHave(tier) {
			tiers = append(tiers, tier)
		}
	}
	return tiers
}

func (s *search) mayHave(tier topology.Tier) bool {
	for _, delay := range s.wanted {
		if delay < tier.TTL {
			return true
		}
	}
	return false
}

// lock waits until no other search runs. Two at a time would each see a part, and what
// both give back would not be in order: what is in front of a message that is due later
// waits for that one. The lock goes with the channel, and so with what is held, however
// this ends: it is the only consumer of an exclusive queue.
func (s *search) lock(ctx context.Context) error {
	name := s.park.config.Topology.Shown("a search goes through the tiers")
	args := amqp.Table{
		"x-queue-type": "classic", // no other can be exclusive
		"about":        "No queue for messages: while it is there, 'delaybridge reschedule' looks for messages in the tiers.",
	}
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.MaxInterval = searchPoll, searchRetry
	for began := time.Now(); ; {
		ch, err := s.channels.Channel()
		if err != nil {
			return fmt.Errorf("open a channel: %w", err)
		}
		if _, err = ch.QueueDeclare(name, false, true, true, false, args); err == nil {
			_, err = ch.Consume(name, "", true, true, false, false, nil)
		}
		if err == nil {
			s.asking, s.unlocked = ch, ch.NotifyClose(make(chan *amqp.Error, 1))
			return nil
		}
		_ = ch.Close()
		var refused *amqp.Error
		err = broker.Classify(err)
		switch {
		case !errors.As(err, &refused) || !refused.Server || errors.Is(err, broker.ErrForbidden):
			return err
		case time.Since(began) > searchPatience:
			return fmt.Errorf("another search is under way: %w", err)
		case !pauseFor(ctx, retry.NextBackOff()):
			return context.Cause(ctx)
		}
	}
}

// pauseFor returns false when ctx ends before d is over.
func pauseFor(ctx context.Context, d time.Duration) bool {
	pause(ctx, d)
	return ctx.Err() == nil
}

// through goes through a tier.
func (s *search) through(ctx context.Context, tier topology.Tier) error {
	depth, consumers, err := s.count(tier)
	switch refused := (*amqp.Error)(nil); {
	case errors.As(err, &refused) && refused.Code == amqp.NotFound:
		return s.lock(ctx) // there is no such tier; the broker has closed the channel over the question
	case err != nil:
		return broker.Classify(err)
	case depth == 0:
		return nil
	case consumers > 0:
		return fmt.Errorf("it has %d consumers, and what two hold cannot go back in order: end them, or wait until they are gone", consumers)
	}
	most, err := s.most(ctx, tier)
	if err != nil {
		return err
	}
	ch, err := s.channels.Channel()
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	w := &tierWalk{search: s, tier: tier, ch: ch, consumers: 1, left: depth, most: most, closed: ch.NotifyClose(make(chan *amqp.Error, 1)), carried: make(chan carried, carriesAtOnce)}
	err = ch.Qos(most, 0, false)
	var deliveries <-chan amqp.Delivery
	if err == nil {
		deliveries, err = ch.Consume(tier.Name, searchTag(1), false, false, false, false, nil)
	}
	if err != nil {
		_ = ch.Close()
		return broker.Classify(err)
	}
	err = w.goOver(ctx, deliveries)
	return errors.Join(err, w.leave())
}

// most returns how many messages to take of a tier. What comes back to a quorum queue
// goes in front of what has never left it, and behind what has come back before. So a
// search that took less than an earlier one, which may still be there, would give the
// first ones back behind the others, to wait for them.
func (s *search) most(ctx context.Context, tier topology.Tier) (int, error) {
	before, err := s.park.config.Client.Get(ctx, searchedKey(s.park.config.Topology, tier)).Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, classify(err)
	}
	most := min(max(s.bounds.Messages, before), maxPrefetch)
	return most, s.remember(ctx, tier, most)
}

// remember notes down how many messages of a tier may have come back to it.
func (s *search) remember(ctx context.Context, tier topology.Tier, n int) error {
	return classify(s.park.config.Client.Set(ctx, searchedKey(s.park.config.Topology, tier), n, tier.TTL+searchPatience).Err())
}

// count returns how many messages of a tier nobody has in hand, and how many consumers
// it has.
func (s *search) count(tier topology.Tier) (messages, consumers int, err error) {
	q, err := s.asking.QueueDeclarePassive(tier.Name, true, false, false, false, nil)
	return q.Messages, q.Consumers, err
}
