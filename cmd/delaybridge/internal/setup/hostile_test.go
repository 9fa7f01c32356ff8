package setup

import (
	"errors"
	"testing"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli/clitest"
	"github.com/delaybridge/delaybridge/internal/migration"
	"github.com/delaybridge/delaybridge/topology"
)

func FuzzPrintsNothingRaw(f *testing.F) {
	prints := map[string]clitest.Print{
		"topology apply": func(a *cli.App, format, text string) error {
			return printChanges(a, format, []topology.Change{clitest.Of[topology.Change](text)}, "")
		},
		"topology verify": func(a *cli.App, format, text string) error {
			return printDrifts(a.Out, format, []topology.Drift{clitest.Of[topology.Drift](text)})
		},
		"migrate": func(a *cli.App, format, text string) error {
			plan := clitest.Of[migration.Plan](text)
			return printMigration(a, format, &plan)
		},
		"migrate status": func(a *cli.App, format, text string) error {
			return (&migrationStatus{App: a, format: format}).print(clitest.Of[migration.Status](text), errors.New(text))
		},
	}
	clitest.FuzzPrints(f, prints, nil, "migrate jsonl")
}
