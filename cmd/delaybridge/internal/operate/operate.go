// Package operate has the commands for an installation that runs: stats, top, doctor and probe
// look at it; reshard, adopt, export and import change where messages are kept.
package operate

import (
	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
)

// Commands returns the commands of this package.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{
		newStatsCommand(a),
		newTopCommand(a),
		newDoctorCommand(a),
		newProbeCommand(a),
		newReshardCommand(a),
		newAdoptCommand(a),
		newExportCommand(a),
		newImportCommand(a),
	}
}
