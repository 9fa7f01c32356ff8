package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/settings"
)

// shownContext is what `context list` prints of one.
type shownContext struct {
	Name     string `json:"name"`
	Prefix   string `json:"prefix"`
	AMQPURL  string `json:"amqp_url,omitempty"` // without its password, or the name of its file
	RedisURL string `json:"redis_url,omitempty"`
}

func newContextCommand(a *cli.App) *cobra.Command {
	parent := &cobra.Command{
		Use:   "context",
		Short: "List the sets of settings that --context chooses from",
		Long: `A context is a set of settings with a name, for one installation. The file
delaybridge/contexts.yaml in your folder of settings ($XDG_CONFIG_HOME, or ~/.config) has them:

  prod:
    amqp-url-file: /home/me/secrets/prod-amqp-url
    redis-url-file: /home/me/secrets/prod-redis-url
    prefix: shop
  staging:
    amqp-url: amqp://staging.example/
    redis-url: redis://staging.example/0

--context NAME, or DELAYBRIDGE_CONTEXT, chooses one. Flags go before it. It takes the place of the
settings file, of credentials, and of all variables but those of connect-timeout, log-level and
log-format: what it leaves out has its default, and no management API. What removes something says
which context it acts on. A file that others may read must have no passwords in it.`,
	}
	cli.Group(parent)
	list := &cobra.Command{Use: "list", Short: "Print each context with its servers; passwords are left out", Args: cli.UsageArgs(cobra.NoArgs)}
	format := cli.OutputFlag(list, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	list.RunE = func(*cobra.Command, []string) error {
		all, err := a.Settings.Sources().Contexts()
		if err != nil {
			return cli.Usage(err)
		}
		shown := []shownContext{}
		for _, c := range all {
			shown = append(shown, shownContext{c.Name, cmp.Or(c.Value("prefix"), defaultOf("prefix")), urlOf(c, "amqp-url"), urlOf(c, "redis-url")})
		}
		return cli.Emit(a.Out, *format, shown, []string{"NAME", "PREFIX", "AMQP URL", "REDIS URL"}, func(c shownContext) []string {
			return []string{c.Name, c.Prefix, c.AMQPURL, c.RedisURL}
		})
	}
	parent.AddCommand(list)
	return parent
}

func urlOf(c settings.Context, key string) string {
	if text := c.Value(key); text != "" {
		return broker.Redact(text)
	}
	return c.Value(key + "-file")
}

func defaultOf(key string) string {
	for _, s := range settings.All() {
		if s.Key == key {
			return s.Default
		}
	}
	return ""
}
