package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// LayoutVersion is the latest version of the keys and their contents that is known. A prefix has
// freshVersion until its number of shards changes: earlier releases know that one, too.
const (
	LayoutVersion = "6"
	freshVersion  = "5"
)

// Layout is how the messages of a prefix are spread over shards.
type Layout struct {
	Version    string // empty where nothing was ever parked
	Generation int    // how often the number of shards has changed
	Shards     int    // 0 where nothing was ever parked
	Next       int    // number of shards that there is to be, while messages move; or 0
}

// Known reports whether this release knows the version.
func (l Layout) Known() bool { return l.Version == LayoutVersion || l.Version == freshVersion }

// readLayout reads what is noted down.
func readLayout(found map[string]string) (l Layout, err error) {
	l.Version = found["version"]
	for field, into := range map[string]*int{"generation": &l.Generation, "shards": &l.Shards, "next_shards": &l.Next} {
		if found[field] == "" {
			continue
		}
		if *into, err = strconv.Atoi(found[field]); err != nil || *into < 0 {
			return Layout{}, fmt.Errorf("%w: the layout has %s %q", ErrConfiguration, field, found[field])
		}
	}
	return l, nil
}

// fields are what readLayout reads.
func (l Layout) fields() []any {
	fields := []any{"version", l.Version, "generation", l.Generation, "shards", l.Shards}
	if l.Next > 0 {
		fields = append(fields, "next_shards", l.Next)
	}
	return fields
}

// Shards returns those that there are, and what is closed when there are others. While their number changes, those
// from which messages move come first.
func (s *Store) Shards() (all []*Shard, changed <-chan struct{}) {
	v := s.view.Load()
	return v.all(), v.changed
}

// Layout returns what was last read of it.
func (s *Store) Layout() Layout { return s.view.Load().layout }

// see takes a layout for what there is.
func (s *Store) see(l Layout) {
	s.seeing.Lock()
	defer s.seeing.Unlock()
	before := s.view.Load()
	if before != nil && before.layout == l {
		return
	}
	v := &view{layout: l, changed: make(chan struct{})}
	v.shards = s.generation(l.Generation, l.Shards)
	if l.Next > 0 {
		v.next = s.generation(l.Generation+1, l.Next)
	}
	s.view.Store(v)
	if before != nil && (before.layout.Generation != l.Generation || before.layout.Shards != l.Shards || before.layout.Next != l.Next) {
		close(before.changed)
	} else if before != nil {
		v.changed = before.changed
	}
}

// ReadLayout reads how messages are spread over shards, and goes by that from then on. It is zero where nothing
// was ever parked.
func (s *Store) ReadLayout(ctx context.Context) (Layout, error) {
	found, err := s.config.Client.HGetAll(ctx, layoutKey(s.config.Topology)).Result()
	if err != nil {
		return Layout{}, classifyRead(err)
	}
	return s.learn(found)
}

// learn sees the layout in found, where it is whole.
func (s *Store) learn(found map[string]string) (Layout, error) {
	l, err := readLayout(found)
	if err == nil && l.Version != "" && l.Shards > 0 {
		s.see(l)
	}
	return l, err
}

// Current is Open after reading the layout anew.
func (s *Store) Current(ctx context.Context) ([]*Shard, error) {
	if _, err := s.ReadLayout(ctx); err != nil {
		return nil, err
	}
	return s.Open(ctx)
}

// Open returns the shards that have messages now, those from which they move before others.
func (s *Store) Open(ctx context.Context) ([]*Shard, error) {
	v := s.view.Load()
	if v.next == nil {
		return v.shards, nil
	}
	closed, err := s.stateOf(ctx, v.shards, "closed")
	if err != nil {
		return nil, err
	}
	var open []*Shard
	for n, shard := range v.shards {
		if closed[n] == "" {
			open = append(open, shard)
		}
	}
	return append(open, v.next...), nil
}

// CheckLayout compares what is stored under the prefix with the topology, and
// notes it down where nothing is stored yet. A message is found by its ID only
// while all count the same number of shards: where that has changed, that of the topology is no matter any more. An owner
// that is known is the layout's.
func (s *Store) CheckLayout(ctx context.Context) error {
	client, t := s.config.Client, s.config.Topology
	key := layoutKey(t)
	found, err := client.HGetAll(ctx, key).Result()
	if err != nil {
		return fmt.Errorf("redisbridge: %w", Classify(err))
	}
	if found["version"] == "" || found["shards"] == "" { // otherwise nothing is written, so that a bridge can start when Redis is full
		if err := s.noteLayout(ctx); err != nil {
			return fmt.Errorf("redisbridge: %w", Classify(err))
		}
		if found, err = client.HGetAll(ctx, key).Result(); err != nil {
			return fmt.Errorf("redisbridge: %w", Classify(err))
		}
	}
	if version := found["version"]; version != LayoutVersion && version != freshVersion {
		return fmt.Errorf("%w: prefix %s holds what another release of delaybridge has parked (layout %s, not %s): let that one deliver it, or choose another prefix",
			ErrConfiguration, t.Prefix(), version, LayoutVersion)
	}
	l, err := readLayout(found)
	if err != nil {
		return err
	}
	if l.Generation == 0 && l.Shards != t.Shards() && l.Next != t.Shards() {
		return fmt.Errorf("%w: prefix %s is in use with shards %d, not %d: set it to %d, or change it with delaybridge reshard %d, or choose another prefix",
			ErrConfiguration, t.Prefix(), l.Shards, t.Shards(), l.Shards, t.Shards())
	}
	s.see(l)
	return s.checkOwner(found, s.config.Owner)
}

// noteLayout notes down the layout that was last seen, or that of the topology.
func (s *Store) noteLayout(ctx context.Context) error {
	client, key, l := s.config.Client, layoutKey(s.config.Topology), s.Layout()
	if l.Generation > 0 || l.Next > 0 { // it was lost: at once, so that nobody takes a part of it for another one
		return client.HSet(ctx, key, l.fields()...).Err()
	}
	for field, value := range map[string]string{"version": freshVersion, "shards": strconv.Itoa(l.Shards)} {
		if err := client.HSetNX(ctx, key, field, value).Err(); err != nil {
			return err
		}
	}
	return nil
}

// Owner is the broker that what is parked under a prefix comes out of.
type Owner struct {
	// Cluster is the name of the broker's cluster. It is compared where a person has set
	// both names: otherwise each node gives its own, such as rabbit@host.
	Cluster string `json:"cluster,omitempty"`
	// VHost is the virtual host.
	VHost string `json:"vhost,omitempty"`
}

// String names both.
func (o Owner) String() string {
	if o.Cluster == "" {
		return "virtual host " + o.VHost
	}
	return "virtual host " + o.VHost + " of cluster " + o.Cluster
}

var nodeName = regexp.MustCompile(`^[^@\s]+@[^@\s]+$`)

// named reports whether a person has given the cluster its name.
func (o Owner) named() bool { return o.Cluster != "" && !nodeName.MatchString(o.Cluster) }

// Is reports whether o and other may be the same; what one does not know is the same.
func (o Owner) Is(other Owner) bool {
	return (o.VHost == "" || other.VHost == "" || o.VHost == other.VHost) &&
		(!o.named() || !other.named() || o.Cluster == other.Cluster)
}

// ErrForeign means that the prefix in Redis is not this installation's: what is parked there
// comes out of another virtual host, or of another cluster; or Redis was emptied, or is an older
// copy. It comes with ErrConfiguration.
var ErrForeign = errors.New("another installation's")

// Installation is what is known in one place, in Redis or on the broker, of the installation. The
// other place has to know the same.
type Installation struct {
	// ID is made up when the first bridge starts.
	ID string `json:"installation"`
	// Epoch is one more than how often the installation was adopted.
	Epoch int64 `json:"epoch"`
	// Beat rises while a bridge runs.
	Beat int64 `json:"beat"`
	// At is the instant of the last beat, by Redis' clock; zero where there was none.
	At time.Time `json:"at,omitzero"`
	// Refused is why bridges refuse what Redis has, or empty.
	Refused string `json:"-"`
}

// Installation returns what Redis knows; the ID is empty where it knows nothing.
func (s *Store) Installation(ctx context.Context) (Installation, error) {
	found, err := s.config.Client.HGetAll(ctx, layoutKey(s.config.Topology)).Result()
	if err != nil {
		return Installation{}, classifyRead(err)
	}
	if _, err := s.learn(found); err != nil {
		return Installation{}, err
	}
	i := readInstallation([]string{found["installation"], found["epoch"], found["beat"], found["beat_at"]})
	i.Refused = found[refusedField]
	return i, nil
}

func readInstallation(text []string) Installation {
	number := func(text string) int64 {
		n, _ := strconv.ParseInt(text, 10, 64)
		return n
	}
	i := Installation{ID: text[0], Epoch: number(text[1]), Beat: number(text[2])}
	if ms := number(text[3]); ms > 0 {
		i.At = InstantOf(ms)
	}
	return i
}

// Beat counts one beat of an installation, which follows its own and Redis', and returns what Redis knows then. A
// Redis that knows no installation gets this one. One that is of another, or of another epoch, does not change.
func (s *Store) Beat(ctx context.Context, i Installation) (Installation, error) {
	answer, err := s.scripts.beat.Run(ctx, s.config.Client, []string{layoutKey(s.config.Topology)}, i.ID, i.Epoch, i.Beat).StringSlice()
	if err != nil {
		return Installation{}, Classify(err)
	}
	if len(answer) != 4 {
		r := reply{}
		r.fail("%d values", len(answer))
		return Installation{}, r.err
	}
	return readInstallation(answer), nil
}

// refusedField has in the layout why bridges refuse what Redis has.
const refusedField = "refused"

// Refuse notes down why what is here is refused, for all who look.
func (s *Store) Refuse(ctx context.Context, why string) error {
	return Classify(s.config.Client.HSet(ctx, layoutKey(s.config.Topology), refusedField, why).Err())
}

// Adopt makes what is here that of an installation and an owner.
func (s *Store) Adopt(ctx context.Context, i Installation, owner Owner) error {
	text, err := json.Marshal(owner)
	if err != nil {
		return err
	}
	key := layoutKey(s.config.Topology)
	_, err = s.config.Client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.HSet(ctx, key, "installation", i.ID, "epoch", i.Epoch, "beat", i.Beat, ownerField, text)
		pipe.HDel(ctx, key, refusedField)
		return nil
	})
	if err != nil {
		return fmt.Errorf("redisbridge: %w", Classify(err))
	}
	return nil
}

// admit is Check for those who write: they do not, while what is here is refused. Of a process that writes for
// long that is looked at now and then, once for all who ask meanwhile.
func (s *Store) admit(ctx context.Context) error {
	if err := s.Check(ctx); err != nil {
		return err
	}
	if last := s.admitted.Load(); last > 0 && time.Now().UnixNano()-last < admittedFor.Nanoseconds() {
		return nil
	}
	looked := s.looking.DoChan("", func() (any, error) {
		err := s.look(context.WithoutCancel(ctx))
		if err == nil {
			s.admitted.Store(time.Now().UnixNano())
		}
		return nil, err
	})
	select {
	case <-ctx.Done():
		return classifyRead(ctx.Err())
	case l := <-looked:
		return l.Err
	}
}

// admittedFor is for how long a process takes it that nothing is refused.
const admittedFor = 5 * time.Second

// look returns an error where what is here is refused. Bridges note that down, as they compare it with what
// RabbitMQ knows. One that was emptied has no such note, so RabbitMQ is asked, too.
func (s *Store) look(ctx context.Context) error {
	i, err := s.Installation(ctx)
	if err != nil {
		return err
	}
	if i.Refused == "" && i.ID == "" && s.config.Installed != nil && s.config.Installed(ctx) {
		i.Refused = "Redis knows nothing of the installation, which RabbitMQ belongs to: it was emptied, or is another Redis"
	}
	if i.Refused != "" {
		return fmt.Errorf("%w: prefix %s in this Redis is %w, or not what it was: %s: restore Redis, or go on with what it has: delaybridge adopt",
			ErrConfiguration, s.config.Topology.Prefix(), ErrForeign, i.Refused)
	}
	return nil
}

// ownerField has the owner in the layout, as JSON, so that it is written at once or not at all.
const ownerField = "owner"

// checkOwner returns ErrForeign where the layout in found is not of want.
func (s *Store) checkOwner(found map[string]string, want Owner) error {
	owner, known := readOwner(found)
	if !known || owner.Is(want) {
		return nil
	}
	return fmt.Errorf("%w: prefix %s in this Redis is %w: it belongs to %s, and this is %s: "+
		"choose another prefix or Redis; or, where the installation has moved, have one bridge adopt it",
		ErrConfiguration, s.config.Topology.Prefix(), ErrForeign, owner, want)
}

func readOwner(layout map[string]string) (o Owner, known bool) {
	known = json.Unmarshal([]byte(layout[ownerField]), &o) == nil
	return o, known
}

// StillOwner returns ErrForeign where the layout is another's.
func (s *Store) StillOwner(ctx context.Context, me Owner) error {
	found, err := s.config.Client.HGetAll(ctx, layoutKey(s.config.Topology)).Result()
	if err != nil {
		return fmt.Errorf("redisbridge: %w", Classify(err))
	}
	if _, err := s.learn(found); err != nil {
		return err
	}
	return s.checkOwner(found, me)
}

// Own notes down whose the layout is, if no owner is known, or adopts it: then it returns
// from whom. The error is ErrForeign where it is another's.
func (s *Store) Own(ctx context.Context, me Owner, adopt bool) (adopted *Owner, err error) {
	key := layoutKey(s.config.Topology)
	text, err := json.Marshal(me)
	if err != nil {
		return nil, err
	}
	found, err := s.config.Client.HGetAll(ctx, key).Result()
	if err != nil {
		return nil, fmt.Errorf("redisbridge: %w", Classify(err))
	}
	owner, known := readOwner(found)
	switch {
	case !known:
		err = s.config.Client.HSetNX(ctx, key, ownerField, text).Err()
	case owner.Is(me) && me.named() && !owner.named(), !owner.Is(me) && adopt:
		err = s.config.Client.HSet(ctx, key, ownerField, text).Err()
	}
	switch {
	case err == nil && known && !owner.Is(me) && adopt:
		adopted = &owner
	case errors.Is(Classify(err), ErrFull): // a bridge starts on a full Redis, too
	case err != nil:
		return nil, fmt.Errorf("redisbridge: %w", Classify(err))
	}
	return adopted, s.StillOwner(ctx, me)
}

// lostFor is for how long a loss is reported.
const lostFor = 24 * time.Hour

// NoteLoss notes down what was lost, unless an earlier loss is noted down, and puts the layout
// back.
func (s *Store) NoteLoss(ctx context.Context, text string) error {
	err := s.config.Client.SetNX(ctx, lostKey(s.config.Topology), text, lostFor).Err()
	if layout := s.CheckLayout(ctx); err == nil {
		err = layout
	}
	return err
}

// Loss returns the last loss that was noted down within the last day, or "".
func (s *Store) Loss(ctx context.Context) (text string, err error) {
	text, err = s.config.Client.Get(ctx, lostKey(s.config.Topology)).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return text, classifyRead(err)
}
