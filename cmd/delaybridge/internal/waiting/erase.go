package waiting

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/audit"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/connect"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/internal/quarantine"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/redisbridge"
)

func newEraseCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "erase ID...",
		Short: "Remove messages and all that is remembered of them, and say where they may still be",
		Long: `Removes messages from Redis, from quarantine and from unrouted: what is parked, retries,
other messages with the ID, and what is remembered of those that were delivered or
cancelled. It asks nothing, and cannot be undone.

What the broker has in a lane or a tier cannot be taken out of its queue. Such a message
is cancelled: its body and headers leave Redis, and the ID alone stays there until the
instant that is printed, so that a consumer that asks Redis drops the message when it
comes out. So it does with an ID that Redis does not know: look with 'delaybridge get'
whether anything is left, not with a second erase. A consumer that has a message while it
is erased may still handle it.

It prints, for each ID, every place: what was removed there, or until when the message
may still be there. RabbitMQ's files, Redis' append-only file, backups, logs and the audit
log, which names the ID, are not touched.

The exit code is 0 if all was removed, or will have gone by the instants printed, 1 if
quarantine or unrouted could not be reached, and 4 if Redis is unreachable: then nothing
was removed from there.`,
		Example: `  delaybridge erase o-1 --reason 'request 4711'
  delaybridge erase o-1 o-2 --entry orders -o json`,
		Args: cli.UsageArgs(func(_ *cobra.Command, ids []string) error {
			if len(ids) == 0 {
				return errors.New("name at least one ID")
			}
			for _, id := range ids {
				if id == "" || len(id) > wire.MaxIDBytes {
					return fmt.Errorf("an ID of %d bytes: use 1 to %d", len(id), wire.MaxIDBytes)
				}
			}
			return nil
		}),
	}
	entry := entryFlag(cmd)
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	reason := audit.ReasonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		return connect.WithTracedPark(cmd.Context(), a, "erase", func(park *redisbridge.Park, c cli.Config) error {
			park, err := parkOf(park, c, *entry)
			if err != nil {
				return err
			}
			a.SayTarget(c)
			e := &eraser{App: a, park: park, config: c, entry: *entry}
			for _, id := range ids {
				if !slices.Contains(e.ids, id) {
					e.ids = append(e.ids, id)
				}
			}
			return e.erase(cmd.Context(), *format, *reason)
		})
	}
	return cmd
}

// eraser erases messages.
type eraser struct {
	*cli.App
	park   *redisbridge.Park
	config cli.Config
	entry  string
	ids    []string
	record redisbridge.AuditRecord
}

func (e *eraser) erase(ctx context.Context, format, reason string) error {
	if err := e.park.Check(ctx); err != nil {
		return err
	}
	e.record = redisbridge.AuditRecord{Action: audit.Erase, Entry: e.entry, Reason: reason}
	for _, id := range e.ids {
		audit.NameIn(&e.record, id)
	}
	begun := e.record
	begun.Begun = true
	audit.Record(ctx, e.App, e.park, begun, nil)

	bar := e.NewBar("erasing", false)
	var erased []redisbridge.Erasure
	var failed error
	for _, id := range e.ids {
		var one redisbridge.Erasure
		if one, failed = e.park.Erase(ctx, id); failed != nil {
			break
		}
		audit.CountIn(&e.record, "removed from redis", one.Places[0].Removed)
		erased = append(erased, one)
		bar.Reached(float64(len(erased)) / float64(len(e.ids)))
	}
	bar.Clear()
	bad := 0
	for _, queue := range []struct{ place, name string }{
		{"quarantine", e.config.Topology.Quarantine()}, {"unrouted", e.config.Topology.Unrouted()},
	} {
		if len(erased) == 0 || ctx.Err() != nil {
			break
		}
		removed, err := e.purge(ctx, queue.name)
		for i := range erased {
			place := redisbridge.ErasurePlace{Place: queue.place, Queue: queue.name, Removed: removed[erased[i].ID]}
			audit.CountIn(&e.record, "removed from "+queue.place, place.Removed)
			if err != nil {
				place.Error = cli.OneLine(err)
			}
			erased[i].Places = slices.Insert(erased[i].Places, 1, place)
		}
		if err != nil {
			bad++
		}
	}
	err := e.print(format, erased)
	switch {
	case failed != nil:
		err = failed
	case ctx.Err() != nil:
		err = ctx.Err()
	case err == nil && bad > 0:
		err = cli.WithCode(cli.ExitFailed, errors.New("a queue could not be reached, so messages may be there still: see above, and erase again"))
	}
	audit.Record(ctx, e.App, e.park, e.record, err)
	return err
}

// purge removes the messages from a queue that keeps them for people, and counts them by ID.
func (e *eraser) purge(ctx context.Context, queue string) (map[string]int, error) {
	settings := e.config
	if settings.LogLevel == slog.LevelInfo {
		settings.LogLevel = slog.LevelWarn // that a short command has connected goes without saying
	}
	q, err := quarantine.New(quarantine.Config{
		URL: settings.AMQPURL, Topology: settings.Topology, Queue: queue, GiveUpAfter: settings.ConnectTimeout, Logger: e.Logger(settings),
	})
	removed := map[string]int{}
	if err == nil {
		err = q.Purge(ctx, quarantine.Filter{IDs: e.ids, Entry: &e.entry}, 0, func(m *quarantine.Message) error {
			removed[m.ID]++
			return nil
		})
	}
	return removed, err
}

const erasureRow = "%-24s  %-16s  %-7s  %-24s  %s"

func (e *eraser) print(format string, erased []redisbridge.Erasure) error {
	out := &cli.Stream{Out: e.Out, Format: format}
	if format != cli.FormatTable {
		for _, one := range erased {
			out.Add(one, "")
		}
		return out.Close()
	}
	out.Header = fmt.Sprintf(erasureRow, "ID", "PLACE", "REMOVED", "UNTIL", "NOTE")
	for _, one := range erased {
		for _, p := range one.Places {
			removed, until, note := "-", "-", cmp.Or(p.Note, p.Queue)
			if p.Removed > 0 || p.Note == "" && p.Until.IsZero() && p.Error == "" {
				removed = strconv.Itoa(p.Removed)
			}
			if !p.Until.IsZero() {
				until = p.Until.UTC().Format(time.RFC3339)
			}
			if p.Error != "" {
				note = "failed: " + p.Error
			}
			out.Add(p, fmt.Sprintf(erasureRow, printable.Text(one.ID), printable.Text(p.Place), removed, until, printable.Text(note)))
		}
	}
	return out.Close()
}
