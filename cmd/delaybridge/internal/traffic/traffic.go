// Package traffic has the commands that messages pass through: publish and relay send them, bridge
// delays them, and consume hands them to a program or closes the orders of the example, which
// order keeps. All but order run until they are done or interrupted, and may serve metrics.
package traffic

import (
	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
)

// Commands returns the commands of this package.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{
		newPublishCommand(a),
		newRelayCommand(a),
		newBridgeCommand(a),
		newConsumeCommand(a),
		newOrderCommand(a),
	}
}
