package setup

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/migration"
	"github.com/delaybridge/delaybridge/internal/printable"
)

// printMigration prints plan: all of it is data.
func printMigration(a *cli.App, format string, plan *migration.Plan) error {
	if format != cli.FormatTable {
		encoder := json.NewEncoder(a.Out)
		encoder.SetEscapeHTML(false) // commands are to be copied
		if format == cli.FormatJSON {
			encoder.SetIndent("", "  ")
		}
		return encoder.Encode(plan)
	}
	if len(plan.Exchanges)+len(plan.Findings) == 0 {
		fmt.Fprintf(a.Err, "nothing to migrate: virtual host %q has no exchange of type %s\n", plan.VHost, migration.PluginType)
		return nil
	}
	if len(plan.Exchanges) > 0 {
		header := []string{"EXCHANGE", "TYPE", "PUBLISH TO", "BIND TO", "DELAYED", "STATE"}
		err := cli.Emit(a.Out, format, plan.Exchanges, header, func(m migration.Move) []string {
			delayed := "?"
			if m.Delayed != nil {
				delayed = strconv.FormatInt(*m.Delayed, 10)
			}
			return []string{m.Exchange, m.Type, m.EntryExchange, m.ReadyExchange, delayed, m.State}
		})
		if err != nil {
			return err
		}
	}
	if len(plan.Bindings) > 0 {
		fmt.Fprintln(a.Out)
		err := cli.Emit(a.Out, format, plan.Bindings, []string{"BINDING", "DETAILS", "STATE"}, func(b migration.Bound) []string {
			return []string{b.Source + " -> " + b.Destination, boundDetails(b), b.State}
		})
		if err != nil {
			return err
		}
	}
	if len(plan.Findings)+len(plan.Unseen) > 0 {
		fmt.Fprintln(a.Out, "\nNOT CARRIED OVER AS IT IS")
		for _, f := range plan.Findings {
			printFinding(a, f)
		}
		for _, unseen := range plan.Unseen {
			fmt.Fprintf(a.Out, "- not looked at: %s\n", printable.Text(unseen))
		}
	}
	if len(plan.Next) > 0 {
		fmt.Fprintf(a.Out, "\nSETTING\nentries: %s\n\nNEXT\n", printable.Text(plan.Setting))
		for i, step := range plan.Next {
			fmt.Fprintf(a.Out, "%d. %s\n", i+1, printable.Text(step))
		}
	}
	return nil
}

func printFinding(a *cli.App, f migration.Finding) {
	subject := fmt.Sprintf("%s %s", f.Kind, f.Name)
	if f.Exchange != "" && f.Exchange != f.Name {
		subject = f.Exchange + ": " + subject
	}
	fmt.Fprintf(a.Out, "- %s: %s.\n  To do: %s.\n", printable.Text(subject), printable.Text(f.Why), printable.Text(f.Do))
	for _, command := range f.Commands {
		fmt.Fprintf(a.Out, "    %s\n", printable.Text(command))
	}
}

func boundDetails(b migration.Bound) string {
	var parts []string
	if b.Key != "" {
		parts = append(parts, "routing key "+b.Key)
	}
	for _, name := range slices.Sorted(maps.Keys(b.Arguments)) {
		parts = append(parts, fmt.Sprintf("%s=%v", name, b.Arguments[name]))
	}
	if parts == nil {
		return "everything"
	}
	return strings.Join(parts, ", ")
}
