package traffic

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/connect"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/telemetry"
	"github.com/delaybridge/delaybridge/internal/defaults"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/redisbridge/metrics"
)

func newBridgeCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bridge",
		Short: "Park and promote messages until interrupted",
		Long: `Takes messages whose delay matches no tier from the inbox into Redis, and
promotes parked messages into the lanes shortly before they are due. Any number
of bridges may run side by side; they divide the work among them. On SIGINT or
SIGTERM the bridge finishes what it has claimed, for --drain-timeout and ten seconds
at most, and exits with 0.

Exchanges, queues and bindings that are missing it puts in place, at its start
and whenever one is deleted. A user without the configure permission needs
'delaybridge topology apply' first.`,
		Args: cli.UsageArgs(cobra.NoArgs),
	}
	var c redisbridge.Config
	service := telemetry.Flags(cmd)
	service.Supervised = true
	flags := cmd.Flags()
	flags.StringVar(&c.Name, "name", "", "name of this bridge in logs and in the management UI (default: the host's name)")
	cli.DurationFlag(flags, &c.Lease, "lease", defaults.Lease, "how long a silent bridge keeps its shards")
	flags.IntVar(&c.MaxInFlight, "max-in-flight", defaults.MaxInFlight, "messages per shard that may be claimed and not yet settled")
	cli.DurationFlag(flags, &c.DrainTimeout, "drain-timeout", defaults.BridgeDrainTimeout, "how long to finish what has begun when stopped")
	flags.BoolVar(&c.Adopt, "adopt", false, "take over a prefix in Redis that belongs to another virtual host or cluster: for an installation that has moved; stop its bridges first")
	cli.DurationFlag(flags, &c.BrokerClockWithin, "broker-clock-within", 0, "how far the clocks of RabbitMQ's nodes and of Redis may differ, where each node sets the header timestamp_in_ms: a delay then begins when the broker takes a message, not when a bridge does; 0 leaves the header alone")
	flags.IntVar(&c.KeepUnrouted, "keep-unrouted", 0, "messages that the unrouted queue keeps; the oldest of more are removed, each with a line in the log; 0 keeps all")
	flags.IntVar(&c.KeepQuarantine, "keep-quarantine", 0, "the same for the quarantine queue")
	var showEvery time.Duration
	cli.DurationFlag(flags, &showEvery, "show-every", defaults.ShowEvery, "how often to renew what the management UI shows of Redis; 0 is never")
	a.FromSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		settings, err := a.Settings.Config()
		if err != nil {
			return err
		}
		c.Logger = a.Logger(settings)
		connect.LogRedis(c.Logger)
		client, err := redisbridge.NewClient(settings.RedisURL)
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }()
		provider, flush, err := telemetry.OpenTraces(cmd.Context(), a, "bridge", c.Logger)
		if err != nil {
			return err
		}
		defer flush()
		c.TracerProvider = provider
		c.Client, c.AMQPURL, c.Topology = client, settings.AMQPURL, settings.Topology
		c.StartWithin, c.Window, c.Tombstones, c.WaitReplicas = settings.ConnectTimeout, settings.DedupeWindow, settings.Tombstones, settings.WaitReplicas
		c.Quotas, c.RetainUnrouted, c.RetainQuarantine = settings.Quotas, settings.UnroutedRetention, settings.QuarantineRetention
		if err := cli.NotNegative(flags); err != nil {
			return cli.Usage(err)
		}
		if c.ShowEvery = showEvery; showEvery == 0 {
			c.ShowEvery = -1 // never
		}
		if err := service.Listen(cmd.Context(), c.Logger); err != nil {
			return err
		}
		bridge, err := newBridge(service, c, settings)
		if err != nil {
			return cli.Usage(err)
		}
		defer service.Serve(cmd.Context(), bridge.Check)()
		c.Logger.Info("bridge starts", "id", bridge.ID(), "prefix", settings.Topology.Prefix(), "shards", settings.Topology.Shards())
		if err := bridge.Run(cmd.Context()); err != nil {
			if errors.Is(err, redisbridge.ErrForeign) {
				err = fmt.Errorf("%w (--adopt)", err)
			}
			return err
		}
		c.Logger.Info("bridge stopped", "id", bridge.ID())
		return nil
	}
	return cmd
}

// newBridge makes a bridge, which keeps metrics if they are served.
func newBridge(s *telemetry.Service, c redisbridge.Config, settings cli.Config) (*redisbridge.Bridge, error) {
	if settings.ManagementURL != "" {
		var err error
		if c.Management, err = connect.Management(settings); err != nil {
			return nil, err
		}
	}
	if !s.Counts() {
		return redisbridge.New(c)
	}
	return metrics.NewBridge(s.Registry, c, c.Management)
}
