package top

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/delaybridge/delaybridge/internal/printable"
)

func (r *renderer) tiers() []string {
	t := table{columns: []column{
		{title: "TTL", left: true, least: 5},
		{title: "TIER", least: 8}, {title: "in/s", keep: 2, least: 5}, {title: "out/s", keep: 2, least: 5}, {title: "late", keep: 1, least: 6},
		{title: "LANES", gap: 2, least: 8}, {title: "in/s", keep: 2, least: 5}, {title: "out/s", keep: 2, least: 5}, {title: "late", keep: 1, least: 6},
		{title: "PARKED", gap: 2, least: 10},
	}}
	var idle []string
	rest := 0 // of those that are empty
	for _, row := range r.p.Rows {
		if isIdle(row) {
			rest++
		}
	}
	for _, row := range r.p.Rows {
		fold := r.room == densest && isIdle(row) && rest <= r.fold // the longest ones
		if isIdle(row) {
			rest--
		}
		switch {
		case fold:
			idle = append(idle, cmp.Or(row.TTL, "ready"))
		case row.TTL == "":
			t.add("ready", "", "", "", "", "", "", "", row.Late.p99(), number(row.Parked))
		default:
			parked := number(row.Parked)
			if row.Lane == nil && row.Parked == 0 {
				parked = ""
			}
			t.add(slices.Concat([]string{row.TTL}, row.Tier.cells(), row.Lane.cells(), []string{parked})...)
		}
	}
	lines := t.lines(r.width, r.look)
	if len(idle) > 0 {
		lines = append(lines, r.look.quiet.Render("empty: "+printable.Text(strings.Join(idle, " "))))
	}
	if m := r.p.Management; m.IsAway() && r.room < densest {
		why := "as the management API does not answer: " + m.Reason
		if m.Reason == ErrNoManagement.Error() {
			why = "as " + m.Reason
		}
		lines = append(lines, r.look.quiet.Render("rates are not known, "+printable.Text(why)))
	}
	return r.greyed(r.p.RabbitMQ.IsAway(), lines)
}

// cells of a table: waiting, in, out, late.
func (q *Queue) cells() []string {
	if q == nil {
		return []string{"", "", "", ""}
	}
	return []string{waiting(q.Messages), q.In.String(), q.Out.String(), q.Late.p99()}
}

func isIdle(r Row) bool {
	empty := func(q *Queue) bool {
		return q == nil || q.Messages != nil && *q.Messages == 0 && q.In.PerSecond == 0 && q.Out.PerSecond == 0 && q.Late.Messages == 0
	}
	return r.Parked == 0 && r.Late.Messages == 0 && empty(r.Tier) && empty(r.Lane)
}

func (r *renderer) shards() []string {
	if len(r.p.Shards) == 0 {
		return nil
	}
	t := table{columns: []column{
		{title: "SHARD", left: true}, {title: "PARKED", least: 10}, {title: "in/s", keep: 1, least: 5}, {title: "out/s", keep: 1, least: 5},
		{title: "PROMOTING", keep: 3}, {title: "NEXT DUE", keep: 2, least: 11}, {title: "late", keep: 2, least: 6}, {title: "OWNER", left: true, keep: 4, gap: 1, most: 8},
	}}
	for _, s := range r.p.Shards {
		owner, style := s.Owner, lipgloss.NewStyle()
		switch {
		case owner == "":
			owner, style = "nobody", r.look.grave
		case !s.Alive:
			owner, style = "gone: "+owner, r.look.grave
		}
		due, dueStyle := until(r.p.Now, s.NextDue), lipgloss.NewStyle()
		if late := r.p.Now.Sub(s.OldestLate); !s.OldestLate.IsZero() && late >= lateEnough {
			due, dueStyle = "late "+span(late), r.look.grave
		}
		plain := lipgloss.NewStyle()
		t.add(s.Name, number(s.Parked), s.In.String(), s.Out.String(), number(s.Promoting), due, s.Late.p99(), owner)
		t.styles = append(t.styles, []lipgloss.Style{plain, plain, plain, plain, plain, dueStyle, plain, style})
	}
	return r.greyed(r.p.Redis.IsAway(), t.lines(r.width, r.look))
}

func (r *renderer) bridges() []string {
	if len(r.p.Bridges) == 0 {
		return nil
	}
	t := table{columns: []column{
		{title: "BRIDGE", left: true}, {title: "SHARDS", left: true}, {title: "claims/s"}, {title: "settles/s", keep: 3},
		{title: "lane p99", keep: 1}, {title: "ready p99", keep: 1}, {title: "RECONNECTS", keep: 2}, {title: "UP", keep: 2},
		{title: "VERSION", left: true, keep: 4, gap: 1}, {title: "HOST", left: true, keep: 5, gap: 1, most: 8},
	}}
	for _, b := range r.p.Bridges {
		if b.At.IsZero() { // of a release that reports nothing
			t.add(b.ID, unknown, unknown, unknown, unknown, unknown, unknown, unknown, unknown, unknown)
			continue
		}
		late := func(messages, p99 int64) string {
			return Lateness{Messages: int(messages), P99: time.Duration(p99) * time.Millisecond}.p99()
		}
		t.add(b.ID, ranges(b.Shards), Rate{b.ClaimedPerSecond, true}.String(), Rate{b.SettledPerSecond, true}.String(),
			late(b.PromotionLate.Messages, b.PromotionLate.P99), late(b.ReadyLate.Messages, b.ReadyLate.P99),
			number(int(b.Reconnects)), span(r.p.Now.Sub(b.Started).Truncate(time.Second)), b.Version, b.Host)
	}
	return r.greyed(r.p.Redis.IsAway(), t.lines(r.width, r.look))
}

// ranges writes 0-2,5.
func ranges(sorted []int) string {
	var parts []string
	for i := 0; i < len(sorted); {
		last := i
		for last+1 < len(sorted) && sorted[last+1] == sorted[last]+1 {
			last++
		}
		part := strconv.Itoa(sorted[i])
		if last > i {
			part += "-" + strconv.Itoa(sorted[last])
		}
		parts = append(parts, part)
		i = last + 1
	}
	if len(parts) == 0 {
		return unknown
	}
	return strings.Join(parts, ",")
}
