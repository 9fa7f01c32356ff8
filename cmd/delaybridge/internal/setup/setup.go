// Package setup has the commands that come before messages: what to order for a load, what a user
// may do, which exchanges and queues there are, and how the delayed-message plugin is left behind.
package setup

import (
	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
)

// Commands returns the commands of this package.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{
		newSizeCommand(a),
		newPermissionsCommand(a),
		newTopologyCommand(a),
		newMigrateCommand(a),
	}
}
