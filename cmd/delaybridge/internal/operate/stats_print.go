package operate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/printable"
)

// row says how much is stored, of how much at most.
func (e entryStats) row() string {
	of := func(text, most string, limited bool) string {
		if !limited {
			return text
		}
		return text + " of " + most
	}
	text := of(strconv.FormatInt(e.Messages, 10), strconv.FormatInt(e.QuotaMessages, 10), e.QuotaMessages > 0) +
		", " + of(bytesText(e.Bytes), bytesText(e.QuotaBytes), e.QuotaBytes > 0)
	if e.Refused > 0 {
		text += ", " + strconv.FormatInt(e.Refused, 10) + " refused"
	}
	return text
}

func bytesText(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

func printStats(a *cli.App, format string, s statistics) error {
	switch format {
	case cli.FormatJSON:
		return cli.PrintJSON(a.Out, s)
	case cli.FormatJSONL:
		return json.NewEncoder(a.Out).Encode(s)
	}
	table := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	line := func(what string, value any) { fmt.Fprintf(table, "%s\t%v\n", printable.Text(what), value) }
	line("WHAT", "MESSAGES")
	if r := s.Redis; r != nil {
		line("parked", r.Parked)
		for _, lane := range r.ByLane {
			to := "  for lane " + lane.TTL
			if lane.TTL == "" {
				to = "  for ready, when due"
			}
			line(to, lane.Messages)
		}
		line("being promoted", r.Promoting)
		line("in their lanes, as Redis knows", r.InLane)
		line("due, and no consumer has said more", r.Due)
		line("delivered, and remembered", r.Delivered)
		line("cancelled, and remembered", r.Cancelled)
		line("rescheduled on their way", r.Moved)
		for _, e := range r.Entries {
			line("stored of entry "+cmp.Or(e.Entry, "(default)"), e.row())
		}
	}
	if b := s.RabbitMQ; b != nil {
		for _, q := range b.Tiers {
			line("tier "+q.TTL, q.Messages)
		}
		for _, q := range b.Lanes {
			line("lane "+q.TTL, q.Messages)
		}
		queue := func(name string, n *int) {
			switch {
			case n != nil:
				line(name, *n)
			case slices.ContainsFunc(b.Silent, func(q string) bool { return strings.HasSuffix(q, "."+name) }):
				line(name, "no answer")
			default:
				line(name, "no such queue")
			}
		}
		if b.NotTaken != nil {
			line("due, and not taken yet; up to 10 s old", *b.NotTaken)
		}
		queue("inbox", b.Inbox)
		queue("unrouted", b.Unrouted)
		queue("quarantine", b.Quarantine)
	}
	if r := s.Redis; r != nil {
		fmt.Fprintf(table, "\nnext due\t%s\n", cli.InstantText(r.NextDue))
		fmt.Fprintf(table, "oldest late\t%s\n", cli.InstantText(r.OldestLate))
		fmt.Fprintf(table, "bridges\t%s\n", cmp.Or(printable.Text(strings.Join(r.Bridges, ", ")), "none"))
	}
	return table.Flush()
}
