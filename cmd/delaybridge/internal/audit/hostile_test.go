package audit

import (
	"testing"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli/clitest"
	"github.com/delaybridge/delaybridge/redisbridge"
)

func FuzzPrintsNothingRaw(f *testing.F) {
	prints := map[string]clitest.Print{
		"audit": func(a *cli.App, format, text string) error {
			out := &cli.Stream{Out: a.Out, Format: format}
			r := clitest.Of[redisbridge.AuditRecord](text)
			out.Add(r, rowOf(r))
			return out.Close()
		},
	}
	clitest.FuzzPrints(f, prints, nil)
}
