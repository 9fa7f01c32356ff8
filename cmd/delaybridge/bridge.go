package main

import (
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/redisbridge"
)

func newBridgeCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bridge",
		Short: "Park and promote messages until interrupted",
		Long: `Takes messages whose delay matches no tier from the inbox into Redis, and
promotes parked messages into the lanes shortly before they are due. Any number
of bridges may run side by side; they divide the work among them. On SIGINT or
SIGTERM the bridge finishes what it has claimed and exits with 0.

Exchanges, queues and bindings that are missing it puts in place, at its start
and whenever somebody deletes one. A user without the configure permission needs
'delaybridge topology apply' first.`,
		Args: usageArgs(cobra.NoArgs),
	}
	var c redisbridge.Config
	flags := cmd.Flags()
	flags.StringVar(&c.Name, "name", "", "name of this bridge in logs and in the management UI (default: the host's name)")
	flags.DurationVar(&c.Lease, "lease", redisbridge.DefaultLease, "how long a silent bridge keeps its shards")
	flags.IntVar(&c.MaxInFlight, "max-in-flight", redisbridge.DefaultMaxInFlight, "messages per shard that may be claimed and not yet settled")
	flags.DurationVar(&c.DrainTimeout, "drain-timeout", redisbridge.DefaultDrainTimeout, "how long to finish work in hand when stopped")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		settings, err := a.settings.config()
		if err != nil {
			return err
		}
		c.Logger = a.logger(settings)
		redis.SetLogger(redisLog{c.Logger})
		client, err := redisbridge.NewClient(settings.redisURL)
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }()
		provider, flush, err := a.openTraces(cmd.Context(), "bridge", c.Logger)
		if err != nil {
			return err
		}
		defer flush()
		c.TracerProvider = provider
		c.Client, c.AMQPURL, c.Topology = client, settings.amqpURL, settings.topology
		c.StartWithin, c.Window = settings.connectTimeout, settings.dedupeWindow
		bridge, err := redisbridge.New(c)
		if err != nil {
			return usage(err)
		}
		c.Logger.Info("bridge starts", "id", bridge.ID(), "prefix", settings.topology.Prefix(), "shards", settings.topology.Shards())
		if err := bridge.Run(cmd.Context()); err != nil {
			return err
		}
		c.Logger.Info("bridge stopped", "id", bridge.ID())
		return nil
	}
	return cmd
}
