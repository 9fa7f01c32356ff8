package setup

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/migration"
	"github.com/delaybridge/delaybridge/internal/printable"
)

// mostPublishers is how many connections of one exchange the table names.
const mostPublishers = 10

// print prints a picture, and where the broker does not answer any more, that.
func (s *migrationStatus) print(status migration.Status, failed error) error {
	if s.format != cli.FormatTable {
		encoder := json.NewEncoder(s.Out)
		if s.format == cli.FormatJSON {
			encoder.SetIndent("", "  ")
		}
		encoder.SetEscapeHTML(false) // commands are to be copied
		return encoder.Encode(status)
	}
	if len(status.Exchanges) == 0 {
		fmt.Fprintf(s.Err, "nothing to look at: virtual host %q has no exchange of type %s\n", status.VHost, migration.PluginType)
		return nil
	}
	if err := printProgress(s.App, status); err != nil {
		return err
	}
	if failed != nil {
		fmt.Fprintf(s.Out, "\nas of %s: %s\n", status.At.Format(time.RFC3339), printable.Error(failed))
	}
	return nil
}

func printProgress(a *cli.App, status migration.Status) error {
	header := []string{"EXCHANGE", "STATE", "DELAYED", "FALLS/S", "IN/S", "ENTRY IN/S", "SILENT FOR", "EMPTY IN", "AT THE LATEST"}
	err := cli.Emit(a.Out, cli.FormatTable, status.Exchanges, header, func(p migration.Progress) []string {
		delayed := "?"
		if p.Delayed != nil {
			delayed = strconv.FormatInt(*p.Delayed, 10)
		}
		until := func(t *time.Time) string {
			if t == nil {
				return "–"
			}
			return roughly(t.Sub(status.At))
		}
		silent := "–"
		if p.SilentSince != nil {
			silent = roughly(status.At.Sub(*p.SilentSince))
		}
		return []string{
			p.Exchange, p.State, delayed, perSecond(p.Falls), perSecond(p.In), perSecond(p.InEntry), silent, until(p.EmptyAt), until(p.EmptyBy),
		}
	})
	if err != nil {
		return err
	}
	for _, p := range status.Exchanges {
		if p.RestsOn != "" {
			fmt.Fprintf(a.Out, "\n%s: the estimate rests on %s\n", printable.Text(p.Exchange), printable.Text(p.RestsOn))
		}
		printPublishers(a, "connections that have published to "+printable.Text(p.Exchange), p.Publishers)
	}
	printPublishers(a, "connections that have published in the virtual host, to whatever exchange", status.Publishers)
	if len(status.Unknown) > 0 {
		fmt.Fprintln(a.Out, "\nNOT KNOWN")
	}
	for _, unknown := range status.Unknown {
		fmt.Fprintf(a.Out, "- %s\n", printable.Text(unknown))
	}
	return nil
}

func printPublishers(a *cli.App, title string, publishers []migration.Publisher) {
	if len(publishers) == 0 {
		return
	}
	fmt.Fprintf(a.Out, "\n%s:\n", title)
	for i, p := range publishers {
		if i == mostPublishers {
			fmt.Fprintf(a.Out, "  and %d more (-o json)\n", len(publishers)-i)
			break
		}
		name := ""
		if p.Name != "" {
			name = " (" + p.Name + ")"
		}
		fmt.Fprintf(a.Out, "  %s, user %s: %s a second, %d messages so far\n",
			printable.Text(p.Connection+name), printable.Text(p.User), perSecond(&p.Rate), p.Published)
	}
}

// perSecond writes a rate; without one it is –.
func perSecond(rate *float64) string {
	if rate == nil {
		return "–"
	}
	return strconv.FormatFloat(*rate, 'g', 3, 64)
}

// roughly writes a duration without what does not matter.
func roughly(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= 2*day {
		return fmt.Sprintf("%.1fd", d.Hours()/day.Hours())
	}
	return d.Round(time.Second).String()
}
