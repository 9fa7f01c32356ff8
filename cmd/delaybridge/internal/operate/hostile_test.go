package operate

import (
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli/clitest"
	"github.com/delaybridge/delaybridge/internal/doctor"
	"github.com/delaybridge/delaybridge/internal/top"
)

func FuzzPrintsNothingRaw(f *testing.F) {
	prints := map[string]clitest.Print{
		"stats": func(a *cli.App, format, text string) error {
			return printStats(a, format, clitest.Of[statistics](text))
		},
		"doctor": func(a *cli.App, format, text string) error {
			return printReport(a, format, clitest.Of[doctor.Report](text))
		},
		"top": func(a *cli.App, format, text string) error {
			return printPicture(a, clitest.Of[top.Picture](text), topOptions{format: format, interval: time.Second})
		},
	}
	clitest.FuzzPrints(f, prints, nil, "doctor jsonl")
}
