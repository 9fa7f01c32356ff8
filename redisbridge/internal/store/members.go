package store

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/redisbridge/internal/store/format"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/server"
)

// Attendance is what a bridge hears when it renews its entry in the register.
type Attendance struct {
	Entered bool     // its entry was there
	Layout  bool     // the layout is there
	Loss    string   // the last one that was noted down, or ""
	Alive   []string // the IDs of the bridges, sorted
}

// Attend enters a bridge into the register for so long, with a report, and has it leave where
// that is 0.
func (s *Store) Attend(ctx context.Context, bridge string, lifetime time.Duration, report string) (Attendance, error) {
	const head = 3
	t := s.config.Topology
	answer, err := s.scripts.Attend.Run(ctx, s.config.Client, []string{format.RegisterKey(t), format.ReportsKey(t), format.LayoutKey(t), format.LostKey(t)},
		bridge, lifetime.Milliseconds(), format.WakeChannel(t), report).StringSlice()
	if err != nil {
		return Attendance{}, server.Classify(err)
	}
	if len(answer) < head {
		r := reply{}
		r.fail("%d values", len(answer))
		return Attendance{}, r.err
	}
	a := Attendance{Entered: answer[0] == "1", Layout: answer[1] == "1", Loss: answer[2], Alive: answer[head:]}
	slices.Sort(a.Alive)
	return a, nil
}

// A Member is a bridge's entry in the register, and its report with the instant that it is
// from; that is zero where there is none.
type Member struct {
	ID     string
	Until  time.Time // then it counts as dead
	At     time.Time
	Report string
}

// Members returns the entries of the bridges alive, sorted by ID.
func (s *Store) Members(ctx context.Context) ([]Member, error) {
	t := s.config.Topology
	answer, err := s.scripts.Bridges.RunRO(ctx, s.config.Client, []string{format.RegisterKey(t), format.ReportsKey(t)}).Slice()
	if err != nil {
		return nil, server.ClassifyRead(err)
	}
	r := reply{rest: answer}
	r.int() // Redis' clock
	var all []Member
	for len(r.rest) > 0 && r.err == nil {
		m := Member{ID: r.string(), Until: InstantOf(r.int())}
		m.At, m.Report = readReport(r.string())
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	return all, r.err
}

// readReport parts what lua/attend.lua has written.
func readReport(text string) (at time.Time, report string) {
	instant, report, _ := strings.Cut(text, " ")
	ms, err := strconv.ParseInt(instant, 10, 64)
	if err != nil {
		return time.Time{}, ""
	}
	return time.UnixMilli(ms).UTC(), report
}

// pingEvery is how soon a broken subscription is noticed, and renewed.
const pingEvery = 30 * time.Second

// Calls are what bridges are told over the wake channel.
type Calls struct {
	Subscribed func()            // perhaps again: whatever was said meanwhile is unheard
	Members    func()            // the register of bridges has changed
	Layout     func()            // there is another number of shards, or there is to be
	Shard      func(name string) // it has something to do earlier than expected
	Told       func(text string) // by [Store.Tell]
}

// Listen makes calls until ctx ends.
func (s *Store) Listen(ctx context.Context, c Calls) {
	subscription := s.config.Client.Subscribe(ctx, format.WakeChannel(s.config.Topology))
	defer func() { _ = subscription.Close() }()
	events := subscription.ChannelWithSubscriptions(redis.WithChannelHealthCheckInterval(pingEvery))
	for {
		select {
		case <-ctx.Done():
			return
		case event, ok := <-events:
			if !ok {
				return
			}
			c.hear(event)
		}
	}
}

// shardName is that of [Shard.Name].
var shardName = regexp.MustCompile(`^([0-9]+\.)?[0-9]+$`)

func (c Calls) hear(event any) {
	message, ok := event.(*redis.Message)
	if !ok {
		c.Subscribed()
		return
	}
	if message.Payload == format.WakeAll {
		c.Members()
		return
	}
	if message.Payload == format.WakeLayout {
		c.Layout()
		return
	}
	if shardName.MatchString(message.Payload) {
		c.Shard(message.Payload)
		return
	}
	c.Told(message.Payload)
}

// Tell tells all bridges a text that is neither a number nor the name of an event. A bridge
// may miss it.
func (s *Store) Tell(ctx context.Context, text string) {
	_ = s.config.Client.Publish(ctx, format.WakeChannel(s.config.Topology), text).Err()
}

const (
	// auditMost is how many records of the audit log are kept, about: Redis drops the oldest in blocks.
	auditMost = 10_000
	// auditPage is how many are read at a time.
	auditPage = 500
	// auditField has the text of a record.
	auditField = "record"
)

// Audited is a record of the audit log.
type Audited struct {
	Position string    // in the log
	At       time.Time // by Redis' clock
	Text     string
}

// AppendAudit adds a record to the audit log. It asks for no layout: the log is there before the first bridge.
func (s *Store) AppendAudit(ctx context.Context, text string) error {
	return server.Classify(s.config.Client.XAdd(ctx, &redis.XAddArgs{
		Stream: format.AuditKey(s.config.Topology), MaxLen: auditMost, Approx: true, Values: []string{auditField, text},
	}).Err())
}

// AuditLog returns a page of the records that were written since an instant and after a position, the oldest
// first. Either may be zero. An empty page is the end.
func (s *Store) AuditLog(ctx context.Context, since time.Time, after string) ([]Audited, error) {
	start := "-"
	switch {
	case after != "":
		start = "(" + after
	case !since.IsZero():
		start = strconv.FormatInt(max(0, since.UnixMilli()), 10)
	}
	found, err := s.config.Client.XRangeN(ctx, format.AuditKey(s.config.Topology), start, "+", auditPage).Result()
	if err != nil {
		return nil, server.ClassifyRead(err)
	}
	page := make([]Audited, len(found))
	for i, one := range found {
		text, _ := one.Values[auditField].(string)
		ms, _, _ := strings.Cut(one.ID, "-")
		at, err := strconv.ParseInt(ms, 10, 64)
		if err != nil {
			return nil, err
		}
		page[i] = Audited{Position: one.ID, At: InstantOf(at).UTC(), Text: text}
	}
	return page, nil
}
