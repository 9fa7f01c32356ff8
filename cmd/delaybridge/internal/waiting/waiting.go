// Package waiting has the commands for messages that have not come out yet, or could not be
// handled: get and list show them, cancel, reschedule and erase change them, and quarantine has
// those that no consumer could process.
package waiting

import (
	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
)

// Commands returns the commands of this package.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{
		newGetCommand(a),
		newListCommand(a),
		newCancelCommand(a),
		newRescheduleCommand(a),
		newEraseCommand(a),
		newQuarantineCommand(a),
	}
}
