package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/connect"
	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/top"
	"github.com/delaybridge/delaybridge/internal/top/sampler"
	"github.com/delaybridge/delaybridge/redisbridge"
)

const (
	defaultTopInterval = 2 * time.Second
	leastTopInterval   = 200 * time.Millisecond
)

func newTopCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch tiers, shards, bridges and problems in a terminal",
		Long: `Shows, until q is pressed, how many messages wait in each tier and shard, how many come
in and go out a second, how late they are delivered, which bridges are alive and what
each does, and first of all what is wrong. While Redis or RabbitMQ is away it keeps the
last picture, greyed, and goes on when the server is back.

With --once, or -o json, it looks twice, an interval apart, prints one picture and ends;
with -o jsonl it prints one as an object per line at each interval until it is interrupted.
The exit code is then 4 where Redis or RabbitMQ is unreachable.

Rates of tiers and lanes come from the management API, lateness from what consumers tell
Redis. What is not known is shown as –, such as those rates where management-url is empty.`,
		Args: cli.UsageArgs(cobra.NoArgs),
	}
	var o topOptions
	flags := cmd.Flags()
	cli.DurationFlag(flags, &o.interval, "interval", defaultTopInterval, "how long from one look to the next")
	flags.BoolVar(&o.once, "once", false, "print one picture and end; needs no terminal")
	flags.BoolVar(&o.noColor, "no-color", false, "use no colours (environment: NO_COLOR)")
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o.format = *format
		if o.interval < leastTopInterval {
			return cli.Usage(fmt.Errorf("--interval %v: use %v or more", o.interval, leastTopInterval))
		}
		return watchInstallation(cmd.Context(), a, o)
	}
	return cmd
}

type topOptions struct {
	interval      time.Duration
	once, noColor bool
	format        string
}

func watchInstallation(ctx context.Context, a *cli.App, o topOptions) error {
	settings, err := a.Settings.Config()
	if err != nil {
		return err
	}
	live := !o.once && o.format == cli.FormatTable
	if live && (!cli.IsTerminal(a.In) || !cli.IsTerminal(a.Out)) {
		return cli.Usage(errors.New("top draws on a terminal, and standard input or output is none: use 'delaybridge top --once', -o json, or 'delaybridge stats'"))
	}
	management, err := connect.ManagementIfAny(settings)
	if err != nil {
		return err
	}
	park, closePark, err := connect.OpenPark(settings, slog.New(slog.DiscardHandler), connect.ParkUse{}) // what is wrong is in the picture
	if err != nil {
		return err
	}
	defer closePark()
	needed, _ := connect.TopologyInRedis(ctx, a, settings)
	s := sampler.New(sampler.Config{
		Park: park, Topology: needed, AMQPURL: settings.AMQPURL, Management: management, Interval: o.interval,
	})
	book := top.NewBook(needed, time.Now())
	switch {
	case live:
		return topLive(ctx, a, o, s, book)
	case o.format == cli.FormatJSONL && !o.once:
		return topLines(ctx, a, o, s, book)
	}
	return topOnce(ctx, a, o, s, book)
}

// leaveWithin bounds how long connections are closed once the terminal is as it was.
const leaveWithin = time.Second

// leave closes a connection, unless the server keeps it waiting.
func leave(closing func()) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		closing()
	}()
	select {
	case <-closed:
	case <-time.After(leaveWithin):
	}
}

// topLive draws until the user, a signal or a wrong configuration ends it.
func topLive(ctx context.Context, a *cli.App, o topOptions, s *sampler.Sampler, book *top.Book) error {
	options := []tea.ProgramOption{tea.WithInput(a.In), tea.WithOutput(cli.Raw(a.Out)), tea.WithoutSignalHandler()}
	if o.noColor {
		options = append(options, tea.WithColorProfile(colorprofile.Ascii))
	}
	program := tea.NewProgram(top.NewModel(book, o.interval, s.Pause), options...)
	looking, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- s.Run(looking, func(l top.Look) { program.Send(l) })
		program.Quit()
	}()
	_, err := program.Run()
	stop()
	select {
	case wrong := <-ended:
		err = errors.Join(err, wrong)
	case <-time.After(leaveWithin): // a server that stands still shall not keep anybody
	}
	return err
}

// topOnce looks twice, for the rates, and prints one picture.
func topOnce(ctx context.Context, a *cli.App, o topOptions, s *sampler.Sampler, book *top.Book) error {
	defer leave(s.Close)
	var failed error
	look := func() {
		failed = nil
		s.Once(ctx, func(l top.Look) {
			book.Take(l)
			if l.Of != top.Management {
				failed = errors.Join(failed, lookFailed(ctx, l))
			}
		})
	}
	look()
	if failed == nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(o.interval):
		}
		look()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(printPicture(a, book.Picture(time.Now()), o), failed)
}

// lookFailed returns why a server is not in the picture: if for nothing else, its answer did not come in time.
func lookFailed(ctx context.Context, l top.Look) error {
	switch {
	case cli.ExitCode(ctx, l.Err) != cli.ExitFailed:
		return l.Err
	case l.Of == top.Redis:
		return fmt.Errorf("%w: %w", redisbridge.ErrUnreachable, l.Err)
	}
	return fmt.Errorf("%w: %w; is it running, and is the address right?", broker.ErrUnreachable, l.Err)
}

// topLines prints a picture at each interval.
func topLines(ctx context.Context, a *cli.App, o topOptions, s *sampler.Sampler, book *top.Book) error {
	defer leave(s.Close)
	ticker := time.NewTicker(o.interval)
	defer ticker.Stop()
	for {
		s.Once(ctx, book.Take)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := printPicture(a, book.Picture(time.Now()), o); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

func printPicture(a *cli.App, p top.Picture, o topOptions) error {
	var err error
	switch o.format {
	case cli.FormatTable:
		text, _ := top.Render(&p, top.Screen{Once: true, Interval: o.interval})
		_, err = io.WriteString(colorprofile.NewWriter(cli.Raw(a.Out), os.Environ()), text+"\n")
	case cli.FormatJSON:
		err = cli.PrintJSON(a.Out, p)
	default:
		err = json.NewEncoder(a.Out).Encode(p)
	}
	if err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
}
