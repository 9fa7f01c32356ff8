package delaybridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/internal/secretfile"
	"github.com/delaybridge/delaybridge/internal/settings"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer"
	"github.com/delaybridge/delaybridge/producer/outbox"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// Names of other packages' types, so that a service needs one import.
type (
	// Message is what is published and handled.
	Message = message.Message
	// ConsumerConfig says what to consume and how. [Client.Consume] fills in the rest.
	ConsumerConfig = consumer.Config
	// HandlerFunc handles a message. An error has the message tried again.
	HandlerFunc = consumer.HandlerFunc
)

// After is a delay from the call that takes it, up to ten years.
func After(delay time.Duration) message.When { return message.After(delay) }

// At is an instant. One that has passed is now.
func At(instant time.Time) message.When { return message.At(instant) }

// Errors that callers branch on, beside those of [producer.Producer.Publish] and
// [redisbridge.Park].
var (
	// ErrNotFound means that Redis knows no message with this ID: none was tracked, or it was
	// delivered longer ago than Config.Remember.
	ErrNotFound = redisbridge.ErrNotFound
	// ErrCancelled means that the ID of what is to be published was cancelled, so that no
	// server has the message.
	ErrCancelled = producer.ErrCancelled
	// ErrNoRedis means that the call needs Config.RedisURL.
	ErrNoRedis = errors.New("there is no Redis: set Config.RedisURL")
)

// Config of a [Client]. Topology, DedupeWindow and Tombstones must be those of the bridges:
// [FromEnv] and [LoadFile] read what the command delaybridge reads.
type Config struct {
	// AMQPURL is RabbitMQ: amqp:// or amqps://user:password@host:port/vhost, or several hosts of
	// a cluster with commas between them, which are tried in random order. Or file:///path: the
	// file has the URL, and is read anew for each connection, so that a password can be replaced.
	// The logger warns at the start where others than its owner may read it. Required.
	AMQPURL string
	// RedisURL is Redis, as in [redisbridge.NewClient], or likewise file:///path. Empty is none: what equals no tier
	// waits in RabbitMQ until a bridge takes it, nothing can be cancelled, rescheduled or
	// looked up, and retries wait in the consumer's hands.
	RedisURL string
	// Topology describes tiers, shards and entries. The zero value is the default.
	Topology topology.Config
	// DedupeWindow is for how long after it was published an ID is remembered. Defaults to 0:
	// while the message waits.
	DedupeWindow time.Duration
	// Remember is for how long Redis knows of a message that it was delivered. Defaults to
	// ten minutes.
	Remember time.Duration
	// Tombstones is for how long it is known of a message that it was cancelled or
	// rescheduled, from when it is due. Defaults to 24 hours.
	Tombstones time.Duration
	// WaitReplicas is how many replicas of Redis must have a message, or a change of it, before that
	// succeeds; see redisbridge.ParkConfig. Defaults to 0.
	WaitReplicas int
	// Quotas are those of the entries, by name, as the bridges have them: what is parked over one is
	// refused (redisbridge.ErrQuota). Defaults to none.
	Quotas map[string]redisbridge.Quota
	// TracerProvider makes spans of what is published, changed and handled. Defaults to none.
	TracerProvider trace.TracerProvider
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// FromEnv reads the environment variables of the command delaybridge, such as
// DELAYBRIDGE_AMQP_URL, and the file that DELAYBRIDGE_CONFIG names; docs/cli.md lists them. The
// error names every fault.
func FromEnv() (Config, error) { return read(settings.Sources{LookupEnv: os.LookupEnv}) }

// LoadFile reads the YAML file of a bridge. Environment variables go before it, as they do for
// the bridge.
func LoadFile(path string) (Config, error) {
	return read(settings.Sources{LookupEnv: os.LookupEnv, File: path})
}

func read(from settings.Sources) (Config, error) {
	s, err := from.Read()
	if err != nil {
		return Config{}, fmt.Errorf("delaybridge: %w", err)
	}
	return Config{
		AMQPURL: s.AMQPURL, RedisURL: s.RedisURL, Topology: s.Described,
		DedupeWindow: s.DedupeWindow, Remember: s.Remember, Tombstones: s.Tombstones, WaitReplicas: s.WaitReplicas, Quotas: s.Quotas,
	}, nil
}

// Client publishes, changes and consumes messages. Make one with [New]. It may be used from
// many goroutines.
type Client struct {
	config   Config
	topology *topology.Topology
	producer *producer.Producer
	redis    redis.UniversalClient // nil without Redis
	park     *redisbridge.Park     // likewise

	mu        sync.Mutex
	started   bool
	consumers []*consumer.Consumer
	relays    []*outbox.Relay
}

// New checks c. It does no I/O, but to read files that hold URLs or certificates. The error names every fault of c at once.
func New(c Config) (*Client, error) {
	t, err := topology.New(c.Topology)
	if err != nil {
		return nil, fmt.Errorf("delaybridge: %w", err)
	}
	client := &Client{config: c, topology: t}
	if err := client.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("delaybridge: %w", err), client.Close())
	}
	for _, rawURL := range []string{c.AMQPURL, c.RedisURL} {
		if path, inFile := secretfile.Path(rawURL); inFile && secretfile.Exposed(path, os.Getenv(secretfile.CredentialsVariable)) {
			secretfile.Warn(cmp.Or(c.Logger, slog.Default()), path)
		}
	}
	return client, nil
}

func (c *Client) open() error {
	var faults []error
	config := producer.Config{
		AMQPURL: c.config.AMQPURL, Topology: c.topology, TracerProvider: c.config.TracerProvider, Logger: c.config.Logger,
	}
	if c.config.RedisURL != "" {
		if err := c.openPark(); err != nil {
			faults = append(faults, err)
		} else {
			config.Parker = c.park
		}
	}
	var err error
	if c.producer, err = producer.New(config); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

func (c *Client) openPark() (err error) {
	if c.redis, err = redisbridge.NewClient(c.config.RedisURL); err != nil {
		return err
	}
	c.park, err = redisbridge.NewPark(redisbridge.ParkConfig{
		Client: c.redis, Topology: c.topology, AMQPURL: c.config.AMQPURL, Window: c.config.DedupeWindow,
		Remember: c.config.Remember, Tombstones: c.config.Tombstones, WaitReplicas: c.config.WaitReplicas, Quotas: c.config.Quotas, TracerProvider: c.config.TracerProvider,
	})
	return err
}

// Consume has Run consume a queue. Of what the config leaves out it fills in the broker, the
// topology, the logger and, where there is a Redis, that cancelled messages are dropped
// (Arrivals) and retries wait there (Delayer). It must be called before Run.
func (c *Client) Consume(config ConsumerConfig) error {
	config.AMQPURL, config.Topology = c.config.AMQPURL, c.topology
	if config.Logger == nil {
		config.Logger = c.config.Logger
	}
	if config.TracerProvider == nil {
		config.TracerProvider = c.config.TracerProvider
	}
	if c.park != nil && config.Arrivals == nil {
		config.Arrivals = c.park
	}
	// Nothing is to come back to the two queues for people.
	if c.park != nil && config.Delayer == nil && config.Queue != c.topology.Quarantine() && config.Queue != c.topology.Unrouted() {
		config.Delayer = c.park
	}
	consumer, err := consumer.New(config)
	if err != nil {
		return fmt.Errorf("delaybridge: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started {
		return errors.New("delaybridge: Consume must be called before Run")
	}
	c.consumers = append(c.consumers, consumer)
	return nil
}

// Relay has Run send what a service puts into an outbox, such as that of package
// producer/outbox/postgres, in its own transactions. It must be called before Run.
func (c *Client) Relay(store outbox.Store) error {
	relay, err := outbox.NewRelay(outbox.RelayConfig{Store: store, Publisher: c.producer, Park: c.park, Logger: c.config.Logger})
	if err != nil {
		return fmt.Errorf("delaybridge: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started {
		return errors.New("delaybridge: Relay must be called before Run")
	}
	c.relays = append(c.relays, relay)
	return nil
}

// Run keeps the connections and consumes until ctx ends. Then it lets handlers and what is
// being published finish, closes the client and returns nil. It returns an error only where
// trying again cannot help, such as a wrong URL, or a queue that does not exist at the start.
// It can be called once.
func (c *Client) Run(ctx context.Context) error {
	c.mu.Lock()
	again := c.started
	c.started = true
	consumers, relays := slices.Clone(c.consumers), slices.Clone(c.relays)
	c.mu.Unlock()
	if again {
		return errors.New("delaybridge: Run can be called once")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Handlers that are finishing may publish.
	publishing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan error, 1)
	go func() {
		err := c.producer.Run(publishing)
		cancel(err) // without a connection there is nothing to be done
		ended <- err
	}()
	var consuming errgroup.Group
	for _, one := range consumers {
		consuming.Go(func() error {
			err := one.Run(ctx)
			if err != nil {
				cancel(err)
			}
			return err
		})
	}
	for _, one := range relays {
		consuming.Go(func() error { return one.Run(ctx) })
	}
	<-ctx.Done()
	err := consuming.Wait()
	stop()
	return errors.Join(err, <-ended, c.Close())
}

// Close frees what a client holds that is not run. After Run there is nothing left to do.
func (c *Client) Close() error {
	if c.redis == nil {
		return nil
	}
	if err := c.redis.Close(); !errors.Is(err, redis.ErrClosed) {
		return err
	}
	return nil
}

// Publish sends a message, to be delivered when w says, and returns nil once RabbitMQ or Redis
// has it. Run must be under way. While a message waits, another one with its ID and content is
// the same message; one with other content is refused (producer.ErrConflict). After
// producer.ErrUnconfirmed the outcome is unknown: publish again with the same ID. It returns
// ErrCancelled where the ID was cancelled.
func (c *Client) Publish(ctx context.Context, m Message, w message.When) (producer.Receipt, error) {
	return c.producer.Publish(ctx, m, w)
}

// Cancel sees to it that the messages of the default entry with an ID have no effect, and says
// truthfully whether it came in time; see [redisbridge.Park.Cancel].
func (c *Client) Cancel(ctx context.Context, id string) (redisbridge.Change, error) {
	if c.park == nil {
		return redisbridge.Change{}, ErrNoRedis
	}
	return c.park.Cancel(ctx, id)
}

// Reschedule gives the messages of the default entry with an ID another due time, and says
// truthfully whether it came in time; see [redisbridge.Park.Reschedule].
func (c *Client) Reschedule(ctx context.Context, id string, w message.When) (redisbridge.Change, error) {
	if c.park == nil {
		return redisbridge.Change{}, ErrNoRedis
	}
	return c.park.Reschedule(ctx, id, w)
}

// Get looks a message of the default entry up. It returns ErrNotFound where none is known.
func (c *Client) Get(ctx context.Context, id string) (redisbridge.MessageState, error) {
	if c.park == nil {
		return redisbridge.MessageState{}, ErrNoRedis
	}
	return c.park.Get(ctx, id)
}
