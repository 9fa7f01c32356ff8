// Package installation knows whether Redis and the broker belong together. Both keep the same: an ID, an
// epoch, and a number that rises once a minute while a bridge runs.
package installation

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/health"
	"github.com/delaybridge/delaybridge/internal/sleep"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
	"github.com/delaybridge/delaybridge/topology"
)

const (
	// beatEvery is how often one of the bridges counts a beat.
	beatEvery = time.Minute
	// behind is by how many beats Redis may be behind the broker: it may lose its last writes in a crash or
	// a failover, which is no reason to stop.
	behind = 3
	// lookAgain is between two looks at a broker that has no record. Another bridge may hold it unacknowledged, so
	// that the second look counts.
	lookAgain = 2 * time.Second
	// pollEvery is how often a bridge that refuses Redis looks whether something has changed there.
	pollEvery = time.Second
	// lookWithin bounds a look: a broker that takes no messages keeps it waiting.
	lookWithin = 10 * time.Second
	// askWithin bounds how long a publisher asks the broker.
	askWithin = 3 * time.Second
	// mostRecords bounds how many records are read; there is one, and after a crash two.
	mostRecords = 100
)

// Config of a [Keeper].
type Config struct {
	Store    *store.Store
	Topology *topology.Topology
	Conn     *broker.Conn
	// First reports whether this bridge counts the beats.
	First      func() bool
	Conditions *health.Conditions
	Logger     *slog.Logger
}

// Keeper compares Redis with the broker.
type Keeper struct {
	config Config
	asked  chan struct{}
	empty  bool   // the broker had no record at the last look
	said   string // why it cannot be looked at
}

// New does no I/O.
func New(c Config) *Keeper { return &Keeper{config: c, asked: make(chan struct{}, 1)} }

// Ask has it looked at soon.
func (k *Keeper) Ask() {
	select {
	case k.asked <- struct{}{}:
	default:
	}
}

// Await returns once Redis is this installation's, as far as that can be told, or with ctx.
func (k *Keeper) Await(ctx context.Context) {
	for ctx.Err() == nil {
		_, refused := k.look(ctx)
		if refused == "" {
			k.config.Conditions.End(health.Foreign)
			return
		}
		k.config.Conditions.Begin(health.Foreign, refused)
		k.awaitChange(ctx)
	}
}

// awaitChange returns once Redis knows something else of the installation than now.
func (k *Keeper) awaitChange(ctx context.Context) {
	before, err := k.config.Store.Installation(ctx)
	for ctx.Err() == nil {
		sleep.For(ctx, pollEvery)
		now, lost := k.config.Store.Installation(ctx)
		if lost == nil && (err != nil || now != before) {
			return
		}
	}
}

// Watch returns once Redis is this installation's no longer, or with ctx.
func (k *Keeper) Watch(ctx context.Context) {
	for wait := lookAgain; ctx.Err() == nil; {
		timer := time.NewTimer(wait)
		asked := k.asked
		if wait == lookAgain { // it counts only after that long
			asked = nil
		}
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-asked:
			timer.Stop()
		}
		found, refused := k.look(ctx)
		if refused != "" {
			return
		}
		if wait = beatEvery; !found {
			wait = lookAgain
		}
	}
}

// look compares Redis with the broker, and says why Redis is refused. found is false where it is to be looked again
// soon.
func (k *Keeper) look(ctx context.Context) (found bool, refused string) {
	within, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	found, refused, err := k.compare(within)
	switch {
	case err == nil:
		k.said = ""
	case ctx.Err() == nil && err.Error() != k.said:
		k.said = err.Error()
		k.config.Logger.Warn("whether Redis is this installation's is not known; it is tried again until it is", "error", err)
	}
	return found, refused
}

func (k *Keeper) compare(ctx context.Context) (found bool, refused string, err error) {
	here, err := k.config.Store.Installation(ctx)
	if err != nil {
		return false, "", err
	}
	r, err := take(ctx, k.config.Conn, k.config.Topology)
	if err != nil {
		return false, "", err
	}
	defer r.close()
	if refused = differ(here, r.last).Refused; refused != "" {
		if refused != here.Refused {
			err = k.config.Store.Refuse(ctx, refused)
		}
		return true, refused, err
	}
	again := k.empty
	k.empty = r.last.ID == ""
	switch {
	case k.empty && !again:
		return false, "", nil
	case k.empty && here.ID != "":
		k.config.Logger.Warn("RabbitMQ knows nothing of this installation: it was emptied, or is another one, and is told",
			"installation", here.ID, "epoch", here.Epoch)
	case !k.empty && !k.config.First() && here.Refused == "":
		return true, "", nil
	}
	next, err := k.config.Store.Beat(ctx, store.Installation{ID: cmp.Or(here.ID, r.last.ID, rand.Text()), Epoch: max(1, here.Epoch), Beat: r.last.Beat})
	if err != nil {
		return true, "", err
	}
	k.empty = false
	return true, "", r.replace(ctx, next)
}

// A Difference is why what Redis knows does not fit to what the broker knows.
type Difference struct {
	Refused      string // empty where there is none
	Consequences string // of going on all the same
}

func differ(here, there store.Installation) Difference {
	switch {
	case there.ID == "":
	case here.ID == "" && there.Epoch <= 1 && there.Beat <= behind: // it has lost its first writes
	case here.ID == "":
		return emptied(there)
	case here.ID != there.ID:
		return Difference{
			fmt.Sprintf("Redis is of installation %s, and RabbitMQ of %s", here.ID, there.ID),
			"What the other installation has parked comes out here, and its own bridges refuse Redis from then on. What this one has parked elsewhere does not come.",
		}
	case here.Epoch < there.Epoch:
		return older(here, there, fmt.Sprintf("Redis is an older copy, of epoch %d of installation %s, which is in epoch %d", here.Epoch, here.ID, there.Epoch))
	case here.Epoch == there.Epoch && here.Beat+behind < there.Beat:
		return older(here, there, fmt.Sprintf("Redis is an older copy: it is as it was at %s, and was in use until %s at least", instant(here.At), instant(there.At)))
	}
	return Difference{}
}

func emptied(there store.Installation) Difference {
	return Difference{
		fmt.Sprintf("Redis knows nothing of installation %s, which RabbitMQ belongs to: it was emptied, or is another Redis", there.ID),
		"What was parked is gone, unless it is restored before. What was cancelled or rescheduled is forgotten: " +
			"its copies that are in lanes and queues still are handled.",
	}
}

func older(here, there store.Installation, refused string) Difference {
	return Difference{refused, fmt.Sprintf("From %s to %s: what was parked is lost, what was delivered comes again, "+
		"and what was cancelled or rescheduled is as it was before.", instant(here.At), instant(there.At))}
}

func instant(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	return t.UTC().Format(time.RFC3339)
}

// records are what the broker has, held unacknowledged until close.
type records struct {
	ch       *amqp.Channel
	exchange string
	tags     []uint64
	last     store.Installation // the ID is empty where there is none
}

// take takes the records of a topology, and holds them unacknowledged.
func take(ctx context.Context, conn *broker.Conn, t *topology.Topology) (*records, error) {
	ch, err := conn.Channel(ctx)
	if err != nil {
		return nil, err
	}
	r := &records{ch: ch, exchange: t.Installation()}
	for range mostRecords {
		d, ok, err := ch.Get(t.Installation(), false)
		if err != nil {
			r.close()
			return nil, fmt.Errorf("read %s: %w", t.Installation(), broker.Classify(err))
		}
		if !ok {
			break
		}
		r.tags = append(r.tags, d.DeliveryTag)
		var one store.Installation
		if json.Unmarshal(d.Body, &one) == nil && (one.Epoch > r.last.Epoch || one.Epoch == r.last.Epoch && one.Beat >= r.last.Beat) {
			r.last = one
		}
	}
	return r, nil
}

// close gives what it holds back.
func (r *records) close() { _ = r.ch.Close() }

// replace has the broker keep next in the place of what it holds. It has next before it loses that.
func (r *records) replace(ctx context.Context, next store.Installation) error {
	body, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if err := r.ch.Confirm(false); err != nil {
		return broker.Classify(err)
	}
	confirm, err := r.ch.PublishWithDeferredConfirmWithContext(ctx, r.exchange, "", false, false, amqp.Publishing{
		ContentType: "application/json", DeliveryMode: amqp.Persistent, Body: body,
	})
	if err != nil {
		return broker.Classify(err)
	}
	kept, err := confirm.WaitContext(ctx)
	if err == nil && !kept {
		err = errors.New("RabbitMQ has refused the record of the installation")
	}
	if err != nil {
		return err
	}
	if len(r.tags) == 0 {
		return nil
	}
	if err := r.ch.Ack(r.tags[len(r.tags)-1], true); err != nil {
		return broker.Classify(err)
	}
	r.tags = nil
	return nil
}

// Known reports whether the broker of a URL knows an installation. It says no where it cannot tell, since
// publishers park also while the broker is away.
func Known(ctx context.Context, amqpURL string, t *topology.Topology) bool {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	conn, err := broker.New(broker.Config{
		URL: amqpURL, Name: "delaybridge installation", About: "Redis knows no installation. A publisher looks whether RabbitMQ does.",
	})
	if err != nil {
		return false // a connection that is needed says why
	}
	defer conn.Start(ctx, askWithin)()
	ch, err := conn.Channel(ctx)
	if err != nil {
		return false
	}
	// It needs no permission, and takes no message.
	q, err := ch.QueueDeclarePassive(t.Installation(), true, false, false, false, nil)
	return err == nil && q.Messages > 0
}

// Adopt has an installation of an owner go on with what Redis has, if agree agrees. It returns what both know then.
func Adopt(ctx context.Context, s *store.Store, conn *broker.Conn, t *topology.Topology, owner store.Owner, agree func(Difference) bool) (store.Installation, error) {
	here, err := s.Installation(ctx)
	if err != nil {
		return store.Installation{}, err
	}
	r, err := take(ctx, conn, t)
	if err != nil {
		return here, err
	}
	defer r.close()
	why := differ(here, r.last)
	if why.Refused == "" && here.ID == "" && r.last.ID != "" { // publishers refuse a young one, too
		why = emptied(r.last)
	}
	if err := s.StillOwner(ctx, owner); errors.Is(err, store.ErrForeign) && why.Refused == "" {
		why = Difference{err.Error(), "What the other one has parked comes out here."}
	}
	if !agree(why) {
		return here, nil
	}
	after := store.Installation{
		ID: cmp.Or(r.last.ID, here.ID, rand.Text()), Epoch: max(here.Epoch, r.last.Epoch) + 1, Beat: max(here.Beat, r.last.Beat),
	}
	// The broker first: a bridge that looks in between refuses what Redis has, as before.
	if err := r.replace(ctx, after); err != nil {
		return here, err
	}
	return after, s.Adopt(ctx, after, owner)
}
