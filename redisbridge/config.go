package redisbridge

import (
	"crypto/tls"
	"log/slog"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge/internal/promote"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/server"
	"github.com/delaybridge/delaybridge/topology"
)

// defaultRepairEvery is that of Config.RepairEvery.
const defaultRepairEvery = time.Minute

// Config of a [Bridge].
type Config struct {
	// Client is the connection to Redis. The Bridge does not close it. Required.
	Client redis.UniversalClient
	// AMQPURL is the broker's URI. Required.
	AMQPURL string
	// TLS is what the parameters of an amqps:// AMQPURL are added to. Defaults to TLS 1.2 and
	// the system's authorities. That of Client is its own.
	TLS *tls.Config
	// Topology must be the same for all bridges and producers. Required.
	Topology *topology.Topology
	// Name starts the bridge's ID and its connections' names. Defaults to the
	// host's name.
	Name string
	// Lease is how long a shard stays with a bridge that is not heard of. When a
	// bridge dies, another one takes its messages over once the lease is over, or a
	// second later; the lanes make up for that where their TTL is longer.
	// Defaults to 5 s.
	Lease time.Duration
	// MaxInFlight bounds the messages of one shard that are claimed and not yet
	// settled. Defaults to 2048.
	MaxInFlight int
	// DrainTimeout bounds how long Run goes on after its context has ended,
	// for the answers to what it has published. Defaults to 20 s.
	DrainTimeout time.Duration
	// RepairEvery is how often one of the bridges looks for exchanges, queues
	// and bindings that were deleted, and puts them back. What a bridge
	// stumbles over it puts back at once, if its user may configure. As often it
	// tries messages of an entry that is not configured, and has no ready
	// exchange. Defaults to a minute.
	RepairEvery time.Duration
	// ShowEvery is how often, at most, one of the bridges renews what the management UI
	// shows of Redis: how much is parked, and when the next message is due. That is the
	// name of an empty queue, which goes with the bridge; it takes the configure
	// permission for <prefix>.(…) and without that nothing is shown. While nothing changes
	// it looks a third as often. Defaults to 10 s; negative is never.
	ShowEvery time.Duration
	// Adopt takes over a prefix in Redis that is another installation's: one that is of
	// another virtual host, or of a cluster with another name. Bridges of that one end
	// within 15 seconds; stop them first. Without it Run returns ErrForeign. Defaults to
	// false.
	Adopt bool
	// Window is for how long after it was published an ID is remembered; see
	// ParkConfig.Window. Without one, two messages with the same ID that reach the inbox
	// are two messages. Defaults to 0.
	Window time.Duration
	// Tombstones is ParkConfig.Tombstones. Defaults to 24 hours.
	Tombstones time.Duration
	// WaitReplicas is ParkConfig.WaitReplicas, for what the bridge takes from the inbox and for
	// commands. Defaults to 0.
	WaitReplicas int
	// Quotas are those of the entries, by their names; the empty name is the default entry's. They
	// are the same for all bridges and publishers. Defaults to none.
	Quotas map[string]Quota
	// KeepUnrouted and KeepQuarantine are how many messages the unrouted and the quarantine queue
	// keep. One of the bridges looks every RepairEvery, and removes the oldest of those that are over,
	// each with a line in the log. Its user needs read permission for the queue. Default to 0: all.
	KeepUnrouted, KeepQuarantine int
	// RetainUnrouted and RetainQuarantine are for how long messages stay in these queues, by Redis' clock. One of
	// the bridges looks every RepairEvery from the front of the queue, removes those that were there for
	// longer, each with a line in the log, and ends at the first one that was not: none is removed before that
	// time, and one behind a younger one stays until that one goes. A message was there since the
	// broker dead-lettered it, or since a consumer or a bridge says that it quarantined it; or, with
	// BrokerClockWithin, since the broker stamped it. One that says none of this stays, and after 200 such
	// messages in front, all behind them stay, too. Default to 0: for ever.
	RetainUnrouted, RetainQuarantine time.Duration
	// BrokerClockWithin says that every node of the broker sets the header timestamp_in_ms
	// of each message that is published
	// (message_interceptors.incoming.set_header_timestamp.overwrite = true, RabbitMQ 3.12 and
	// later), by a clock that is never further than this from Redis'. The relative delay of a
	// message of the inbox then begins this much after the broker took it, or when a bridge
	// takes it in if that is sooner. Where a node does not overwrite the header, a publisher
	// can have a message delivered early. Defaults to 0: the header means nothing.
	BrokerClockWithin time.Duration
	// StartWithin ends Run with ErrUnreachable when a server cannot be reached
	// for so long at the start. Once a bridge works, it waits for servers as
	// long as it takes. Defaults to never.
	StartWithin time.Duration
	// Observe is called for each parked message at each step, from many
	// goroutines; it must not block. The bridge goes on only when it has
	// returned: a process that ends within ends exactly at this boundary. path
	// is empty at StepClaimed, where it is not known yet. The broker's confirm
	// may overtake StepPublished. Defaults to nothing.
	Observe func(step Step, id string, path message.Path)
	// ObserveConfirm is told how long the broker took to answer for a promoted message,
	// and the answer: nil where it has the message. It is called likewise. Defaults to
	// nothing.
	ObserveConfirm func(took time.Duration, answer error)
	// Management is where to look, every RepairEvery, for policies that override the
	// arguments of the topology's queues (the condition policy). Without it the bridge sees none.
	Management *topology.Management
	// TracerProvider makes spans of each message that carries a context which is
	// sampled, and of no other: one when it is parked out of the inbox, and one when it
	// is promoted. Defaults to none, which costs nothing.
	TracerProvider trace.TracerProvider
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// Quota is how much of an entry Redis takes at most; zero is no limit. What is over is refused:
// [Park.Park] returns ErrQuota, and a bridge sends the message to quarantine with the reason. A
// message that is parked already, or that comes back for a retry, is never refused. What equals a
// tier does not go through Redis, unless the entry is tracked.
type Quota struct {
	// Messages is how many are stored: those that wait, and those that the broker has, until they
	// are due, or for as long as Window says.
	Messages int64
	// Bytes is what all that is stored of the entry takes: IDs, headers and bodies, and what is
	// remembered of messages that were cancelled or delivered. Redis takes some 100 bytes more for
	// each message.
	Bytes int64
	// Delay is the longest delay, and Body the largest body in bytes. The error wraps ErrInvalid,
	// too, as trying again does not help.
	Delay time.Duration
	Body  int64
}

// Usage is how much is stored of an entry, as [Quota] counts it: by running counts, which may be
// a few messages off after a crash of Redis.
type Usage = store.Usage

// Step is a boundary on the way of a parked message, as [Config.Observe] sees it.
type Step int

// The steps, in their order. A message that the broker did not take goes back
// into the schedule and begins with StepClaimed again.
const (
	// StepClaimed: Redis has answered the claim, and nothing of it is published.
	StepClaimed = Step(promote.Claimed)
	// StepPublished: the message is on its way to the broker.
	StepPublished = Step(promote.Published)
	// StepConfirmed: the broker has it, and Redis has not been told.
	StepConfirmed = Step(promote.Confirmed)
	// StepSettled: Redis knows that the broker has it, and forgets it once it is due.
	StepSettled = Step(promote.Settled)
	// StepReturned: the message is back in the schedule, because the broker has not
	// taken it, or it was not published after all.
	StepReturned = Step(promote.Returned)
)

// String returns claimed, published, confirmed, settled or returned.
func (s Step) String() string {
	switch s {
	case StepClaimed:
		return "claimed"
	case StepPublished:
		return "published"
	case StepConfirmed:
		return "confirmed"
	case StepSettled:
		return "settled"
	case StepReturned:
		return "returned"
	}
	return "Step(" + strconv.Itoa(int(s)) + ")"
}

// NewClient returns a client for a URL. It does no I/O, but to read files that hold the URL or certificates.
//
//	redis://user:password@host:6379/0                     a server; rediss:// for TLS
//	redis://user:password@host:6379?addr=host:6379&...    a Redis Cluster, by some of its nodes
//	redis://host:26379/0?master_name=name&addr=host:26379&username=user&password=password
//	                                                      a server that Sentinels watch, by some of them
//	file:///run/secrets/redis-url                         a file that has one of these as its only line
//
// A URL of rediss:// may have the parameters cacertfile, certfile, keyfile (paths of PEM files, read now and anew for
// every connection), server_name_indication and tls_min_version (1.2, the default, or 1.3).
//
// A file is read anew for every connection: the user and the password of Redis are those that it
// has then. The rest of its URL, the password of Sentinels too, is that of the start.
//
// A user and a password in front of the Sentinel's host are for the Sentinels.
//
// The client sends each command once. The library would otherwise repeat it
// after a lost connection, too, and tell only how the last repetition fared: a
// message whose first answer was lost looks never sent, or parked before by
// another client. In a Redis Cluster it follows MOVED, by which a node says that
// it has done nothing, but not ASK: while the keys of a slot move one by one,
// a script would work on a part of them.
func NewClient(rawURL string) (redis.UniversalClient, error) { return server.NewClient(rawURL) }
