package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/audit"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/connect"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
)

func newExportCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write all that waits in Redis as JSON lines, for import or for other programs",
		Long: `Writes a line for each message that is parked, being promoted or in its lane, and for
each that was cancelled and is remembered. What was published untracked, and waits in
tiers or in the inbox, is the broker's and not here.

It is no snapshot: each message that is there from beginning to end is written, once. A
message that is published, delivered or cancelled meanwhile may be missing. It reads
small pages, so that Redis has time for others however many messages there are.

The fields of a line are for people, apart from name and record: these are all that
'delaybridge import' needs. With --readable there are key, headers and body, too.`,
		Example: `  delaybridge export > parked.jsonl
  delaybridge export --without-lanes | delaybridge import --redis-url redis://other:6379/0 -
  delaybridge export --readable | jq -r 'select(.entry == "orders").body'`,
		Args: cli.UsageArgs(cobra.NoArgs),
	}
	readable := cmd.Flags().Bool("readable", false, "add routing key, headers and body to each line")
	withoutLanes := cmd.Flags().Bool("without-lanes", false, "leave out what is in its lane: to move to another Redis beside the same RabbitMQ, which delivers that")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return connect.WithPark(a, func(park *redisbridge.Park, c cli.Config) error {
			return exportTo(cmd.Context(), a, park, *readable, *withoutLanes, a.Logger(c))
		})
	}
	return cmd
}

// exportedMessage is a line of `export`.
type exportedMessage struct {
	redisbridge.Stored
	Key        string          `json:"key,omitempty"`
	Headers    json.RawMessage `json:"headers,omitempty"`
	Body       *string         `json:"body,omitempty"`        // where it is UTF-8
	BodyBase64 []byte          `json:"body_base64,omitempty"` // where it is not
	Error      string          `json:"error,omitempty"`       // why these cannot be read
}

func (m *exportedMessage) read() {
	stored, err := m.Message()
	if err != nil {
		m.Error = err.Error()
		return
	}
	m.Key = stored.RoutingKey
	m.Body, m.BodyBase64 = cli.BodyOf(stored.Body)
	if len(stored.Headers) > 0 {
		if m.Headers, err = wire.JSONOfTable(stored.Headers); err != nil {
			m.Error = "headers: " + err.Error()
		}
	}
}

func exportTo(ctx context.Context, a *cli.App, park *redisbridge.Park, readable, withoutLanes bool, log *slog.Logger) error {
	bar := a.NewBar("exporting", true)
	out := &cli.Stream{Out: a.Out, Format: cli.FormatJSONL}
	counts := map[redisbridge.State]int{}
	var failed error
	for one, err := range park.Export(ctx, bar.Reached) {
		if err != nil {
			failed = err
			break
		}
		if withoutLanes && one.State == redisbridge.StateInLane {
			continue
		}
		line := exportedMessage{Stored: one}
		if readable && one.State != redisbridge.StateCancelled {
			line.read()
		}
		if counts[one.State]++; !out.Add(&line, "") {
			break
		}
	}
	bar.Clear()
	if err := errors.Join(failed, out.Close()); err != nil {
		return err
	}
	log.Info("exported", "parked", counts[redisbridge.StateParked], "in_lanes", counts[redisbridge.StateInLane], "cancelled", counts[redisbridge.StateCancelled])
	return nil
}

func newImportCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Park what 'delaybridge export' has written; - is standard input",
		Long: `Parks each message of the file under the prefix, into the shards and in the Redis of
the settings. Each message keeps its due time; an overdue one is due a second later. A
cancelled ID is cancelled again. A message that already waits stays as it is, so an
interrupted import can be repeated before the first of its messages are due.
docs/recovery.md has the steps of a move.

Exits with 1 where lines could not be imported; each is on standard error with its
number, and all others are imported.`,
		Example: `  delaybridge import parked.jsonl
  delaybridge import --prefix shop --shards 12 parked.jsonl`,
		Args: cli.UsageArgs(cobra.ExactArgs(1)),
	}
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	reason := audit.ReasonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		input, size := a.In, int64(-1)
		if args[0] != "-" {
			file, err := os.Open(args[0])
			if err != nil {
				return cli.Usage(err)
			}
			defer func() { _ = file.Close() }()
			if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
				size = info.Size()
			}
			input = file
		}
		return connect.WithPark(a, func(park *redisbridge.Park, _ cli.Config) error {
			record := redisbridge.AuditRecord{Action: audit.Import, Details: "file " + args[0], Reason: *reason}
			if args[0] == "-" {
				record.Details = "standard input"
			}
			err := importFrom(cmd.Context(), a, park, input, size, *format, &record)
			audit.Record(cmd.Context(), a, park, record, err)
			return err
		})
	}
	return cmd
}

// imported is what `import` prints.
type imported struct {
	Parked    int `json:"parked"`
	Before    int `json:"parked_before"` // waited already
	Cancelled int `json:"cancelled"`
	Failed    int `json:"failed"`
}

// importsAtOnce is how many lines share round trips.
const importsAtOnce = 512

func importFrom(ctx context.Context, a *cli.App, park *redisbridge.Park, input io.Reader, size int64, format string, record *redisbridge.AuditRecord) error {
	bar := a.NewBar("importing", false)
	var (
		done  imported
		mu    sync.Mutex
		lines sync.WaitGroup
		read  int64
	)
	room := make(chan struct{}, importsAtOnce)
	fail := func(line int, err error) {
		mu.Lock()
		defer mu.Unlock()
		done.Failed++
		bar.Clear()
		fmt.Fprintf(a.Err, "line %d: %v\n", line, err)
	}
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	from := linesOf(reading, input)
	for {
		var line numberedLine
		var ok bool
		select {
		case line, ok = <-from:
		case <-reading.Done(): // whatever the input is waiting for
		}
		if !ok {
			break
		}
		if line.err != nil && !errors.Is(line.err, cli.ErrLineTooLong) {
			stop(line.err)
			break
		}
		mu.Lock()
		if read += int64(len(line.text)) + 1; size > 0 {
			bar.Reached(min(1, float64(read)/float64(size)))
		}
		mu.Unlock()
		var one redisbridge.Stored
		if line.err == nil {
			line.err = json.Unmarshal(line.text, &one)
		}
		if line.err != nil {
			fail(line.n, fmt.Errorf("not a line of 'delaybridge export': %w", line.err))
			continue
		}
		room <- struct{}{}
		lines.Go(func() {
			defer func() { <-room }()
			// What is under way has an answer soon; it is not left to be guessed at.
			parking, err := park.Import(context.WithoutCancel(ctx), one)
			if connect.Hopeless(err) {
				stop(err)
			}
			if err != nil {
				fail(line.n, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			switch parking {
			case message.CancelledBefore:
				done.Cancelled++
			case message.ParkedBefore:
				done.Before++
			default:
				done.Parked++
			}
		})
	}
	lines.Wait()
	bar.Clear()
	for what, n := range map[string]int{"parked": done.Parked, "parked before": done.Before, "cancelled": done.Cancelled, "failed": done.Failed} {
		audit.CountIn(record, what, n)
	}
	if err := context.Cause(reading); err != nil {
		fmt.Fprintf(a.Err, "stopped after %d messages were parked: import the same file again\n", done.Parked)
		return err
	}
	var err error
	if format != cli.FormatTable {
		err = json.NewEncoder(a.Out).Encode(done)
	} else {
		_, err = fmt.Fprintf(a.Out, "parked %d, parked before %d, cancelled %d, failed %d\n", done.Parked, done.Before, done.Cancelled, done.Failed)
	}
	if err != nil {
		return err
	}
	if done.Failed > 0 {
		return fmt.Errorf("lines that were not imported: %d", done.Failed)
	}
	return nil
}

// numberedLine is a line of an input, or why it could not be read.
type numberedLine struct {
	n    int
	text []byte
	err  error
}

// linesOf reads lines until ctx ends. A read cannot be interrupted: it is left to itself.
func linesOf(ctx context.Context, input io.Reader) <-chan numberedLine {
	lines := make(chan numberedLine)
	go func() {
		defer close(lines)
		for reader := cli.NewLineReader(input); ; {
			text, err := reader.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			select {
			case lines <- numberedLine{reader.N, text, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines
}
