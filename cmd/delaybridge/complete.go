package main

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/audit"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/connect"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/redisbridge"
)

const (
	// completeWithin is how long a shell waits for what completes a word. What a server has not
	// answered by then is left out.
	completeWithin = 900 * time.Millisecond
	// completeMost is how many words are offered.
	completeMost = 100
)

// offer gives words that may complete what was typed, one at a time, until give returns false.
type offer func(ctx context.Context, c cli.Config, cmd *cobra.Command, give func(word string) bool) error

// completions has cmd, and all below it, complete what only the servers or the settings know.
func completions(a *cli.App, cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		completions(a, child)
	}
	fixed := func(words ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
	}
	at := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
	switch at {
	case "cancel", "reschedule", "get", "erase":
		cmd.ValidArgsFunction = complete(a, offerIDs)
	}
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		var function cobra.CompletionFunc
		switch at + " --" + f.Name {
		case "consume --queue", "quarantine list --queue", "quarantine replay --queue", "quarantine purge --queue", "permissions --queue":
			function = complete(a, offerQueues)
		case "topology delete --with-messages":
			function = complete(a, offerOwnQueues)
		case "migrate --entry", "migrate status --entry", "topology prune --entry": // which are not configured
		case "list --state":
			function = fixed("parked", "promoting", "in-lane")
		case "consume --order-by":
			function = fixed("id", "key")
		case "quarantine replay --to":
			function = fixed("queue", "ready")
		case "audit --action":
			function = fixed(audit.Actions()...)
		case "delaybridge --shards":
			function = complete(a, offerShards)
		case "delaybridge --context":
			function = completeContexts(a)
		case "delaybridge --log-level":
			function = fixed("debug", "info", "warn", "error")
		case "delaybridge --log-format":
			function = fixed("text", "json")
		default:
			switch f.Name {
			case "entry":
				function = complete(a, offerEntries)
			case "output":
				_, formats, _ := strings.Cut(f.Usage, ": ")
				function = fixed(strings.Split(formats, ", ")...)
			}
		}
		if function != nil {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, function) // which fails where there is one already
		}
	})
}

// complete asks for words, and is silent where the settings are wrong or a server does not answer.
func complete(a *cli.App, of offer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		c, err := a.Settings.Sources().Read()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		connect.LogRedis(slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
		defer cancel()
		words := make(chan string)
		go func() {
			defer close(words)
			_ = of(ctx, c, cmd, func(word string) bool {
				if !strings.HasPrefix(word, typed) || printable.Text(word) != word || strings.ContainsAny(word, " \t\n") {
					return true // what a shell could not take as one word
				}
				select {
				case words <- word:
					return true
				case <-ctx.Done():
					return false
				}
			})
		}()
		var found []cobra.Completion
		for len(found) < completeMost {
			select {
			case word, more := <-words:
				if !more {
					return found, cobra.ShellCompDirectiveNoFileComp
				}
				if !slices.Contains(args, word) && !slices.Contains(found, word) {
					found = append(found, word)
				}
			case <-ctx.Done(): // a call may not end with its context
				return found, cobra.ShellCompDirectiveNoFileComp
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// offerIDs gives those that wait, the ones that are due next first.
func offerIDs(ctx context.Context, c cli.Config, cmd *cobra.Command, give func(string) bool) error {
	park, closePark, err := connect.OpenPark(c, slog.New(slog.DiscardHandler), connect.ParkUse{})
	if err != nil {
		return err
	}
	defer closePark()
	entry := ""
	if f := cmd.Flags().Lookup("entry"); f != nil {
		entry = f.Value.String()
	}
	for m, err := range park.List(ctx, redisbridge.Filter{}) {
		if err != nil {
			return err
		}
		if m.Message.Entry == entry && !give(m.ID) {
			break
		}
	}
	return nil
}

// offerQueues gives those of others, which only the management API lists.
func offerQueues(ctx context.Context, c cli.Config, _ *cobra.Command, give func(string) bool) error {
	management, err := connect.ManagementIfAny(c)
	if err != nil || management == nil {
		return err
	}
	var queues []struct {
		Name string `json:"name"`
	}
	if err := management.Get(ctx, "queues/{vhost}", &queues); err != nil {
		return err
	}
	for _, q := range queues {
		if own := strings.HasPrefix(q.Name, c.Topology.Prefix()+".") && q.Name != c.Topology.Quarantine() && q.Name != c.Topology.Unrouted(); !own {
			give(q.Name)
		}
	}
	return nil
}

func offerOwnQueues(_ context.Context, c cli.Config, _ *cobra.Command, give func(string) bool) error {
	for _, q := range c.Topology.Queues() {
		give(q.Name)
	}
	return nil
}

func offerEntries(_ context.Context, c cli.Config, _ *cobra.Command, give func(string) bool) error {
	for _, e := range c.Topology.Entries() {
		give(e.Name)
	}
	return nil
}

// offerShards gives the number of shards that Redis is in use with.
func offerShards(ctx context.Context, c cli.Config, _ *cobra.Command, give func(string) bool) error {
	client, err := redisbridge.NewClient(c.RedisURL)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	i, err := redisbridge.Inspect(ctx, client, c.Topology)
	if err == nil && i.Shards != "" {
		give(i.Shards)
	}
	return err
}

func completeContexts(a *cli.App) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		all, err := a.Settings.Sources().Contexts()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []cobra.Completion
		for _, c := range all {
			names = append(names, c.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
