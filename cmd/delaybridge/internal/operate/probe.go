package operate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/wire"
)

func newProbeCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "probe [URL]",
		Short: "Ask a running process whether it is ready, for containers without a shell",
		Long: `Asks what a bridge, consumer or relay with --metrics-addr serves, and prints what it says. The URL
defaults to http://127.0.0.1:9464/readyz, and to that path. Exit code 1 means that it is not
ready, and says why, and 4 that nothing answers.`,
		Example: `  delaybridge probe
  delaybridge probe http://127.0.0.1:9465/healthz`,
		Args: cli.UsageArgs(cobra.MaximumNArgs(1)),
	}
	var within time.Duration
	cli.DurationFlag(cmd.Flags(), &within, "timeout", 5*time.Second, "how long to wait for the answer")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		at := "http://127.0.0.1:9464/readyz"
		if len(args) == 1 {
			at = args[0]
		}
		target, err := url.Parse(at)
		if err != nil || target.Host == "" || (target.Scheme != "http" && target.Scheme != "https") {
			return cli.Usage(fmt.Errorf("%q is no address: write http://127.0.0.1:9464, with the port of --metrics-addr", at))
		}
		if within <= 0 {
			return cli.Usage(fmt.Errorf("--timeout %s: must be longer than 0", wire.TTLName(within)))
		}
		if target.Path == "" || target.Path == "/" {
			target.Path = "/readyz"
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), within)
		defer cancel()
		return printAnswer(ctx, a, target)
	}
	return cmd
}

// printAnswer prints the answer to one question. An error says that it is not the one that was hoped for.
func printAnswer(ctx context.Context, a *cli.App, target *url.URL) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return cli.Usage(err)
	}
	response, err := http.DefaultClient.Do(request)
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case err != nil:
		return cli.WithCode(cli.ExitUnreachable, fmt.Errorf("nothing answers: %w; is it running, with --metrics-addr %s?", err, target.Host))
	}
	defer func() { _ = response.Body.Close() }()
	said := bufio.NewScanner(response.Body)
	for said.Scan() {
		fmt.Fprintln(a.Out, said.Text())
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", target.Redacted(), response.Status)
	}
	return said.Err()
}
