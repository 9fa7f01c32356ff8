package audit

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/connect"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// Actions that are recorded.
const (
	Cancel     = "cancel"
	Reschedule = "reschedule"
	Import     = "import"
	Purge      = "quarantine purge"
	Replay     = "quarantine replay"
	Erase      = "erase"
	Adopt      = "adopt"
	Prune      = "topology prune"
	Reshard    = "reshard"
)

// Actions returns all actions that are recorded.
func Actions() []string {
	return []string{Cancel, Reschedule, Import, Purge, Replay, Erase, Adopt, Prune, Reshard}
}

// ReasonFlag adds --reason to a command whose action is recorded. It comes after [cli.OutputFlag], which checks first.
func ReasonFlag(cmd *cobra.Command) *string {
	reason := cmd.Flags().String("reason", "", fmt.Sprintf("why, for the audit log; up to %d characters", wire.MaxReason))
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if before != nil {
			if err := before(cmd, args); err != nil {
				return err
			}
		}
		if err := wire.CheckReason(*reason); err != nil {
			return cli.Usage(fmt.Errorf("--reason: %w", err))
		}
		return nil
	}
	return reason
}

// recordWithin is how long a command waits for its record.
const recordWithin = 5 * time.Second

// Record adds what a command did to the audit log, and what has ended it, also where the command was
// interrupted. Where that is not possible a warning says so.
func Record(ctx context.Context, a *cli.App, park *redisbridge.Park, r redisbridge.AuditRecord, ended error) {
	if connect.Hopeless(ended) && len(r.Outcome) == 0 {
		return // nothing was done
	}
	r.Via = "cli"
	r.Who, r.KnownBy = operatorOf()
	if ended != nil && r.Error == "" {
		r.Error = cli.WithoutSecrets(printable.Error(ended))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	if err := park.RecordAudit(ctx, r); err != nil {
		fmt.Fprintf(a.Err, "warning: this is not recorded in the audit log: %s\n", cli.WithoutSecrets(printable.Error(err)))
	}
}

// operatorOf returns who runs this process, as far as the operating system tells.
func operatorOf() (who string, known string) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	me, err := user.Current()
	if err != nil {
		return "", "unknown"
	}
	return me.Username + "@" + host, "machine"
}

// mostNamed is how many IDs a record of the audit log names.
const mostNamed = 20

// NameIn adds a message to those that a record names.
func NameIn(r *redisbridge.AuditRecord, id string) {
	if r.Named++; len(r.IDs) < mostNamed {
		r.IDs = append(r.IDs, id)
	}
}

// CountIn adds to what a record says of messages.
func CountIn(r *redisbridge.AuditRecord, what string, n int) {
	if n == 0 {
		return
	}
	if r.Outcome == nil {
		r.Outcome = map[string]int{}
	}
	r.Outcome[what] += n
}
