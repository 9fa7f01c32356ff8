package traffic

import (
	"context"
	"errors"
	"testing"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli/clitest"
	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/consumer/orders"
)

func FuzzPrintsNothingRaw(f *testing.F) {
	prints := map[string]clitest.Print{
		"publish": func(a *cli.App, format, text string) error {
			return (&publishJob{App: a, format: format}).print([]receipt{clitest.Of[receipt](text)})
		},
		"relay --list-failed": func(a *cli.App, format, text string) error {
			return printFailedRows(a.Out, format, []failedRow{clitest.Of[failedRow](text)})
		},
		"consume": func(a *cli.App, format, text string) error {
			p := &consumePrinter{out: a.Out, format: format, stop: func() {}, closed: map[string]orders.Outcome{}}
			o := clitest.Of[consumer.Observation](text)
			o.Outcome = consumer.Quarantined
			p.header()
			p.observe(o)
			return p.err
		},
	}
	says := map[string]clitest.Say{
		"publish --file": func(a *cli.App, text string) {
			r := &publishReport{job: &publishJob{App: a, format: cli.FormatTable}, progress: &progress{}, stop: func() {}}
			r.add(&publication{line: 1, err: rejectedLine{errors.New(text)}})
			p := &publication{line: 2}
			p.message.ID, p.message.RoutingKey, p.receipt.Past = text, text, true
			r.add(p)
			_ = r.close(context.Background(), nil)
		},
	}
	clitest.FuzzPrints(f, prints, says, "consume json")
}
