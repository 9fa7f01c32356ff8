package waiting

import (
	"context"
	"errors"
	"testing"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli/clitest"
	"github.com/delaybridge/delaybridge/internal/quarantine"
	"github.com/delaybridge/delaybridge/redisbridge"
)

func FuzzPrintsNothingRaw(f *testing.F) {
	prints := map[string]clitest.Print{
		"get": func(a *cli.App, format, text string) error {
			out := &cli.Stream{Out: a.Out, Format: format}
			m := clitest.Of[redisbridge.MessageState](text)
			out.Add(m, tableOf(&m))
			m.Unreadable = nil // shows the rest
			out.Add(m, tableOf(&m))
			return out.Close()
		},
		"list": func(a *cli.App, format, text string) error {
			out := &cli.Stream{Out: a.Out, Format: format}
			m := clitest.Of[listedMessage](text)
			out.Add(m, m.row())
			return out.Close()
		},
		"cancel": func(a *cli.App, format, text string) error {
			_ = changeEach(context.Background(), a, format, []string{text}, cancelling(), &redisbridge.AuditRecord{}, func(context.Context, string) (redisbridge.Change, error) {
				return redisbridge.Change{}, errors.New(text)
			})
			return nil
		},
		"cancel --group": func(a *cli.App, format, text string) error {
			group := redisbridge.GroupChange{Group: text, Outcomes: map[redisbridge.Outcome]int{redisbridge.OutcomeDone: 1}}
			return tellOfGroup(a, format, cancelling(), group, nil, &redisbridge.AuditRecord{})
		},
		"erase": func(a *cli.App, format, text string) error {
			return (&eraser{App: a}).print(format, []redisbridge.Erasure{clitest.Of[redisbridge.Erasure](text)})
		},
		"quarantine list": func(a *cli.App, format, text string) error {
			p, m := newItemPrinter(a.Out, format, summaryRow, "ID"), clitest.Of[quarantine.Message](text)
			return errors.Join(p.item(summaryOf(&m), summaryCells(&m)), p.end())
		},
		"quarantine show": func(a *cli.App, format, text string) error {
			p, m := newItemPrinter(a.Out, format, detailsRow), clitest.Of[quarantine.Message](text)
			m.Stack = "main.go:1" // of which each line gets one
			return errors.Join(p.item(detailsOf(&m), []any{detailsText(&m)}), p.end())
		},
		"quarantine replay": func(a *cli.App, format, text string) error {
			p := newItemPrinter(a.Out, format, replayRow, "ID", "TO", "RESULT")
			return errors.Join(p.item(replayedItem(clitest.Of[quarantine.Replayed](text))), p.end())
		},
	}
	clitest.FuzzPrints(f, prints, nil)
}
