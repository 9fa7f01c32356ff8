package operate

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/connect"
	"github.com/delaybridge/delaybridge/internal/doctor"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/redisbridge"
)

func newDoctorCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine the whole installation, and say what is wrong and what mends it",
		Long: `Looks at RabbitMQ, Redis and the bridges, changes nothing, and says of each finding what
it means and which command mends it; docs/findings.md has an entry for each. Run it
where a bridge runs, and with its settings: its user and this machine's clock are
examined, too.

What cannot be looked at is a finding as well, and the other checks go on. The user of
the management URL needs the tag monitoring, for permissions administrator; where that URL is
empty, what AMQP and Redis tell is examined. What only rabbitmqctl shows is looked at with
--rabbitmqctl.

Takes a few seconds; some 20 where it has to look again to tell what passes from what
stays. No check takes more than 30 seconds: what a server has not answered by then is not
made, and says so. On a terminal, standard error shows which checks are still made. Exits with 3 where there is a problem or a warning, and with 4 where a server
is unreachable; notes alone are no reason.`,
		Example: `  delaybridge doctor
  delaybridge doctor --rabbitmqctl 'docker exec rabbitmq rabbitmqctl' -o json
  delaybridge doctor --ignore redis-settings-unseen,one-bridge`,
		Args: cli.UsageArgs(cobra.NoArgs),
	}
	format := cli.OutputFlag(cmd, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL)
	control := cmd.Flags().String("rabbitmqctl", "", "how to run rabbitmqctl on a node: the program, and arguments, separated by spaces")
	ignore := cmd.Flags().StringSlice("ignore", nil, "codes of findings to leave out, comma-separated")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		settings, err := a.Settings.Config()
		if err != nil {
			return err
		}
		for _, code := range *ignore {
			if !slices.Contains(doctor.Codes(), code) {
				return cli.Usage(fmt.Errorf("--ignore %q: there is no such finding; there are %s", code, strings.Join(doctor.Codes(), ", ")))
			}
		}
		management, err := connect.ManagementIfAny(settings)
		if err != nil {
			return err
		}
		connect.LogRedis(slog.New(slog.DiscardHandler)) // what matters of it is found
		client, err := redisbridge.NewClient(settings.RedisURL)
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }()
		needed, _ := connect.TopologyInRedis(cmd.Context(), a, settings) // that Redis does not answer is a finding
		shown := a.NewWorking("examining")
		report, err := doctor.Examine(cmd.Context(), doctor.Config{
			Topology: needed, Shards: settings.Topology.Shards(), AMQPURL: settings.AMQPURL, Management: management, Redis: client, ManagementURL: settings.ManagementURL, RedisURL: settings.RedisURL,
			RabbitMQCtl: strings.Fields(*control), Patience: settings.ConnectTimeout,
			Progress: func(left []string) { shown.Describe("examining: " + firstFew(left)) },
		})
		shown.Clear()
		if err != nil {
			return err
		}
		report = report.Without(*ignore...)
		if err := printReport(a, *format, report); err != nil {
			return err
		}
		switch {
		case report.Unreachable():
			return cli.WithCode(cli.ExitUnreachable, errors.New("a server is unreachable"))
		case report.Severe():
			return cli.WithCode(cli.ExitDrift, fmt.Errorf("findings: %s", summary(report)))
		}
		return nil
	}
	return cmd
}

// firstFew lists the beginning of a list.
func firstFew(names []string) string {
	const most = 3
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// summary counts findings by severity.
func summary(r doctor.Report) string {
	var parts []string
	for _, severity := range []doctor.Severity{doctor.Problem, doctor.Warning, doctor.Note} {
		n := 0
		for _, f := range r.Findings {
			if f.Severity == severity {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%ss %d", severity, n))
		}
	}
	return strings.Join(parts, ", ")
}

func printReport(a *cli.App, format string, r doctor.Report) error {
	if format != cli.FormatTable {
		encoder := json.NewEncoder(a.Out)
		if format == cli.FormatJSON {
			encoder.SetIndent("", "  ")
		}
		encoder.SetEscapeHTML(false) // commands are to be read
		return encoder.Encode(r)
	}
	var text strings.Builder
	line := func(format string, args ...string) {
		escaped := make([]any, len(args))
		for i, arg := range args {
			escaped[i] = printable.Text(arg)
		}
		fmt.Fprintf(&text, format+"\n", escaped...)
	}
	for _, c := range r.Checks {
		switch mark := map[string]string{doctor.OutcomeFine: "ok", doctor.OutcomeFindings: "!!", doctor.OutcomeNotMade: "??"}[c.Outcome]; {
		case c.Outcome == doctor.OutcomeFindings && r.OnlyNotes(c):
			line("[ok] %s (noted: %s)", c.Name, strings.Join(c.Codes, ", "))
		default:
			line("[%s] %s", mark, c.Name)
		}
	}
	for _, f := range r.Findings {
		line("\n%s %s: %s", strings.ToUpper(string(f.Severity)), f.Code, f.Subject)
		line("  found  %s\n  means  %s", f.Found, f.Means)
		if f.Do != "" {
			line("  do     %s", f.Do)
		}
		for _, command := range f.Commands {
			line("         $ %s", command)
		}
	}
	if len(r.Findings) == 0 {
		text.WriteString("\nnothing found\n")
	} else {
		fmt.Fprintf(&text, "\n%s%s; docs/findings.md has an entry for each\n", summary(r), doctor.StatisticsNote)
	}
	_, err := a.Out.Write([]byte(text.String()))
	return err
}
