package waiting

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// idsAtOnce is how many IDs a command asks Redis about at the same time, which then
// flushes to its disk once for several.
const idsAtOnce = 16

// idsArgs lets a command take IDs as arguments, or from standard input: where there are
// none or the only one is -.
func idsArgs(a *cli.App) cobra.PositionalArgs {
	return cli.UsageArgs(func(cmd *cobra.Command, args []string) error {
		switch group := cmd.Flags().Lookup("group"); {
		case !group.Changed:
		case len(args) > 0:
			return errors.New("use IDs or --group, not both")
		case group.Value.String() == "" || len(group.Value.String()) > wire.MaxGroupBytes:
			return fmt.Errorf("--group of %d bytes: use 1 to %d", len(group.Value.String()), wire.MaxGroupBytes)
		default:
			return nil
		}
		if len(args) == 0 && cli.IsTerminal(a.In) {
			return errors.New("name at least one ID, or write them to standard input, one a line")
		}
		if len(args) > 1 && slices.Contains(args, "-") {
			return errors.New("- stands for standard input, and cannot be one of several IDs")
		}
		for _, id := range args {
			if id == "" || len(id) > wire.MaxIDBytes {
				return fmt.Errorf("an ID of %d bytes: use 1 to %d", len(id), wire.MaxIDBytes)
			}
		}
		return nil
	})
}

// groupFlag is for commands whose arguments are IDs (idsArgs).
func groupFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("group", "", "in place of IDs: all messages that were parked with this header x-delay-group")
}

// answered is what became of one ID.
type answered[T any] struct {
	id    string
	value T
	err   error
	done  chan struct{} // closed when the rest is final
}

// eachID asks about each ID, several at a time, and reports the answers in the order of
// the IDs. It returns once all are reported. Where report returns false, or ctx ends, no
// other ID is read.
func eachID[T any](
	ctx context.Context, a *cli.App, args []string, ask func(ctx context.Context, id string) (T, error), report func(id string, value T, err error) bool,
) {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	window := make(chan *answered[T], idsAtOnce-1)
	go func() {
		defer close(window)
		lines := readIDs(reading, a.In, args)
		for {
			var line idLine
			var ok bool
			select {
			case line, ok = <-lines:
			case <-reading.Done(): // whatever the input is waiting for
			}
			if !ok {
				return
			}
			next := &answered[T]{id: line.id, err: line.err, done: make(chan struct{})}
			window <- next // the other end takes all
			go func() {
				defer close(next.done)
				if next.err == nil { // what is under way has an answer soon; it is not left to be guessed at
					next.value, next.err = ask(context.WithoutCancel(ctx), next.id)
				}
			}()
		}
	}()
	goOn := true
	for next := range window {
		<-next.done
		if goOn = goOn && report(next.id, next.value, next.err); !goOn {
			stop()
		}
	}
}

// idLine is an ID that was read, or why that was not possible.
type idLine struct {
	id  string
	err error
}

// readIDs returns the arguments, or the lines of standard input. A read cannot be
// interrupted: it is left to itself.
func readIDs(ctx context.Context, input io.Reader, args []string) <-chan idLine {
	lines := make(chan idLine)
	send := func(l idLine) bool {
		select {
		case lines <- l:
			return true
		case <-ctx.Done():
			return false
		}
	}
	go func() {
		defer close(lines)
		if len(args) > 0 && args[0] != "-" {
			for _, id := range args {
				if !send(idLine{id: id}) {
					return
				}
			}
			return
		}
		for reader := cli.NewLineReader(input); ; {
			line, err := reader.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				err = fmt.Errorf("line %d: %w", reader.N, err)
			}
			if !send(idLine{id: string(line), err: err}) {
				return
			}
		}
	}()
	return lines
}

// entryFlag adds --entry to a command that names messages by their IDs.
func entryFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("entry", "", "the entry that the IDs belong to, one of the setting entries (default: the default one)")
}

// parkOf returns park for the messages of an entry.
func parkOf(park *redisbridge.Park, c cli.Config, entry string) (*redisbridge.Park, error) {
	if !c.Topology.HasEntry(entry) {
		return nil, cli.Usage(fmt.Errorf("--entry %q is not configured: use one of the setting entries", entry))
	}
	return park.OfEntry(entry), nil
}
