package redisbridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/topology"
)

// layoutVersion is the version of the keys and their contents.
const layoutVersion = "5"

// checkLayout compares what is stored under the prefix with the topology, and
// notes it down where nothing is stored yet. A message is found by its ID only
// while everybody counts the same number of shards. An owner that is known is the layout's.
func checkLayout(ctx context.Context, client redis.UniversalClient, t *topology.Topology, owner Owner) error {
	key := layoutKey(t)
	want := map[string]string{"version": layoutVersion, "shards": strconv.Itoa(t.Shards())}
	found, err := client.HGetAll(ctx, key).Result()
	if err != nil {
		return fmt.Errorf("redisbridge: %w", classify(err))
	}
	if found["version"] == "" || found["shards"] == "" { // otherwise nothing is written, so that a bridge can start when Redis is full
		for field, value := range want {
			if err := client.HSetNX(ctx, key, field, value).Err(); err != nil {
				return fmt.Errorf("redisbridge: %w", classify(err))
			}
		}
		if found, err = client.HGetAll(ctx, key).Result(); err != nil {
			return fmt.Errorf("redisbridge: %w", classify(err))
		}
	}
	if version := found["version"]; version != layoutVersion {
		return fmt.Errorf("%w: prefix %s holds what another release of delaybridge has parked (layout %s, not %s): let that one deliver it, or choose another prefix",
			ErrConfiguration, t.Prefix(), version, layoutVersion)
	}
	for field, value := range want {
		if found[field] != value {
			return fmt.Errorf("%w: prefix %s is in use with %s %s, not %s: set it to %s, or choose another prefix",
				ErrConfiguration, t.Prefix(), field, found[field], value, found[field])
		}
	}
	return checkOwner(found, t, owner)
}

// Owner is the broker that what is parked under a prefix comes out of.
type Owner struct {
	// Cluster is the name of the broker's cluster. It is compared where a person has set
	// both names: otherwise each node gives its own, such as rabbit@host.
	Cluster string `json:"cluster,omitempty"`
	// VHost is the virtual host.
	VHost string `json:"vhost,omitempty"`
}

// OwnerOf returns the owner that an AMQP URL names, whose Cluster is empty: only the broker
// knows it. It does no I/O.
func OwnerOf(amqpURL string) (Owner, error) {
	uri, err := amqp.ParseURI(amqpURL)
	if err != nil {
		return Owner{}, fmt.Errorf("%w: %s", broker.ErrConfiguration, broker.Redact(amqpURL))
	}
	return Owner{VHost: uri.Vhost}, nil
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

// is reports whether o and other may be the same; what one does not know is the same.
func (o Owner) is(other Owner) bool {
	return (o.VHost == "" || other.VHost == "" || o.VHost == other.VHost) &&
		(!o.named() || !other.named() || o.Cluster == other.Cluster)
}

// ErrForeign means that the prefix in Redis is another installation's: what is parked there
// comes out of another virtual host, or of another cluster. It comes with ErrConfiguration.
var ErrForeign = errors.New("another installation's")

// ownerField has the owner in the layout, as JSON, so that it is written at once or not at all.
const ownerField = "owner"

// checkOwner returns ErrForeign where the layout in found is not of want.
func checkOwner(found map[string]string, t *topology.Topology, want Owner) error {
	owner, known := readOwner(found)
	if !known || owner.is(want) {
		return nil
	}
	return fmt.Errorf("%w: prefix %s in this Redis is %w: it belongs to %s, and this is %s: "+
		"choose another prefix or Redis; or, where the installation has moved, have one bridge adopt it",
		ErrConfiguration, t.Prefix(), ErrForeign, owner, want)
}

func readOwner(layout map[string]string) (o Owner, known bool) {
	known = json.Unmarshal([]byte(layout[ownerField]), &o) == nil
	return o, known
}

// stillOwner returns ErrForeign where the layout is another's.
func (b *Bridge) stillOwner(ctx context.Context, me Owner) error {
	found, err := b.config.Client.HGetAll(ctx, layoutKey(b.config.Topology)).Result()
	if err != nil {
		return fmt.Errorf("redisbridge: %w", classify(err))
	}
	return checkOwner(found, b.config.Topology, me)
}

// awaitOwner returns once the broker has said who it is, and the layout is its own.
func (b *Bridge) awaitOwner(ctx context.Context) (Owner, error) {
	cluster, vhost, err := b.conn.Server(ctx)
	if err != nil {
		return Owner{}, err // of the connection, which says so itself
	}
	me := Owner{Cluster: cluster, VHost: vhost}
	for {
		err := b.own(ctx, me, b.config.Adopt)
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrConfiguration) {
			return me, err
		}
		b.log.Warn("Redis is not ready", "error", err, "retry_in", retryPause)
		pause(ctx, retryPause)
	}
}

// own notes down whose the layout is, if no owner is known, or adopts it. It returns
// ErrForeign where it is another's.
func (b *Bridge) own(ctx context.Context, me Owner, adopt bool) error {
	key := layoutKey(b.config.Topology)
	text, err := json.Marshal(me)
	if err != nil {
		return err
	}
	found, err := b.config.Client.HGetAll(ctx, key).Result()
	if err != nil {
		return fmt.Errorf("redisbridge: %w", classify(err))
	}
	owner, known := readOwner(found)
	switch {
	case !known:
		err = b.config.Client.HSetNX(ctx, key, ownerField, text).Err()
	case owner.is(me) && me.named() && !owner.named(), !owner.is(me) && adopt:
		err = b.config.Client.HSet(ctx, key, ownerField, text).Err()
	}
	switch {
	case err == nil && known && !owner.is(me) && adopt:
		b.log.Warn("the messages of another installation are adopted", "from", owner.String(), "by", me.String())
	case errors.Is(classify(err), ErrFull): // a bridge starts on a full Redis, too
	case err != nil:
		return fmt.Errorf("redisbridge: %w", classify(err))
	}
	return b.stillOwner(ctx, me)
}
