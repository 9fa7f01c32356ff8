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

	"github.com/delaybridge/delaybridge/redisbridge/internal/store/format"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/server"
)

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
	found, err := s.config.Client.HGetAll(ctx, format.LayoutKey(s.config.Topology)).Result()
	if err != nil {
		return Installation{}, server.ClassifyRead(err)
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
	answer, err := s.scripts.Beat.Run(ctx, s.config.Client, []string{format.LayoutKey(s.config.Topology)}, i.ID, i.Epoch, i.Beat).StringSlice()
	if err != nil {
		return Installation{}, server.Classify(err)
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
	return server.Classify(s.config.Client.HSet(ctx, format.LayoutKey(s.config.Topology), refusedField, why).Err())
}

// Adopt makes what is here that of an installation and an owner.
func (s *Store) Adopt(ctx context.Context, i Installation, owner Owner) error {
	text, err := json.Marshal(owner)
	if err != nil {
		return err
	}
	key := format.LayoutKey(s.config.Topology)
	_, err = s.config.Client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.HSet(ctx, key, "installation", i.ID, "epoch", i.Epoch, "beat", i.Beat, ownerField, text)
		pipe.HDel(ctx, key, refusedField)
		return nil
	})
	if err != nil {
		return fmt.Errorf("redisbridge: %w", server.Classify(err))
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
		return server.ClassifyRead(ctx.Err())
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
			server.ErrConfiguration, s.config.Topology.Prefix(), ErrForeign, i.Refused)
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
		server.ErrConfiguration, s.config.Topology.Prefix(), ErrForeign, owner, want)
}

func readOwner(layout map[string]string) (o Owner, known bool) {
	known = json.Unmarshal([]byte(layout[ownerField]), &o) == nil
	return o, known
}

// StillOwner returns ErrForeign where the layout is another's.
func (s *Store) StillOwner(ctx context.Context, me Owner) error {
	found, err := s.config.Client.HGetAll(ctx, format.LayoutKey(s.config.Topology)).Result()
	if err != nil {
		return fmt.Errorf("redisbridge: %w", server.Classify(err))
	}
	if _, err := s.learn(found); err != nil {
		return err
	}
	return s.checkOwner(found, me)
}

// Own notes down whose the layout is, if no owner is known, or adopts it: then it returns
// from whom. The error is ErrForeign where it is another's.
func (s *Store) Own(ctx context.Context, me Owner, adopt bool) (adopted *Owner, err error) {
	key := format.LayoutKey(s.config.Topology)
	text, err := json.Marshal(me)
	if err != nil {
		return nil, err
	}
	found, err := s.config.Client.HGetAll(ctx, key).Result()
	if err != nil {
		return nil, fmt.Errorf("redisbridge: %w", server.Classify(err))
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
	case errors.Is(server.Classify(err), server.ErrFull): // a bridge starts on a full Redis, too
	case err != nil:
		return nil, fmt.Errorf("redisbridge: %w", server.Classify(err))
	}
	return adopted, s.StillOwner(ctx, me)
}

// lostFor is for how long a loss is reported.
const lostFor = 24 * time.Hour

// NoteLoss notes down what was lost, unless an earlier loss is noted down, and puts the layout
// back.
func (s *Store) NoteLoss(ctx context.Context, text string) error {
	err := s.config.Client.SetNX(ctx, format.LostKey(s.config.Topology), text, lostFor).Err()
	if layout := s.CheckLayout(ctx); err == nil {
		err = layout
	}
	return err
}

// Loss returns the last loss that was noted down within the last day, or "".
func (s *Store) Loss(ctx context.Context) (text string, err error) {
	text, err = s.config.Client.Get(ctx, format.LostKey(s.config.Topology)).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return text, server.ClassifyRead(err)
}
