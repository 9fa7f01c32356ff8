package top

import (
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/delaybridge/delaybridge/internal/printable"
)

// Screen says how a picture is to be shown.
type Screen struct {
	Width, Height int // 0 is as much as it takes
	Offset        int // lines of the body that are above the screen
	Interval      time.Duration
	Paused, Help  bool
	Once          bool // no keys, no clock that ticks
}

// How much room a picture takes: with space between its parts, without, and without
// tiers that nothing goes through.
const (
	airy = iota
	dense
	densest
)

// Render returns the lines of a screen, styled, each no wider than the screen, and how
// many of the body do not fit.
func Render(p *Picture, s Screen) (text string, hidden int) {
	r := renderer{p: p, s: s, look: newLooks(), width: s.Width}
	if r.width <= 0 {
		r.width = 1 << 10
	}
	head, foot := []string{r.header()}, r.footer(0, 0)
	var body []string
	for r.room = airy; r.room <= densest; r.room++ {
		body = r.body()
		excess := len(head) + len(body) + len(foot) - s.Height
		if s.Height <= 0 || excess <= 0 {
			break
		}
		r.fold = excess + 1 // they leave one line
	}
	if s.Height > 0 {
		fits := max(1, s.Height-len(head)-len(foot))
		hidden = max(0, len(body)-fits)
		above := min(s.Offset, hidden)
		body = body[above:min(len(body), above+fits)]
		for len(body) < fits {
			body = append(body, "")
		}
		foot = r.footer(above, hidden-above)
	}
	lines := append(append(head, body...), foot...)
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, r.width, "…")
	}
	if s.Height > 0 && len(lines) > s.Height {
		lines = lines[:s.Height]
	}
	return strings.Join(lines, "\n"), hidden
}

type renderer struct {
	p     *Picture
	s     Screen
	look  looks
	width int
	room  int
	fold  int // how many tiers to leave out, where they are empty
}

func (r *renderer) header() string {
	left := r.look.title.Render("delaybridge top") + "  " + printable.Text(r.p.Prefix)
	right := r.p.At.Local().Format(time.TimeOnly)
	switch {
	case r.s.Paused:
		right = r.look.warn.Render("paused since " + right)
	case !r.s.Once && r.width >= 60:
		right = "every " + r.s.Interval.String() + "  " + right
	}
	if r.s.Width <= 0 {
		return left + "  " + right
	}
	return left + strings.Repeat(" ", max(2, r.width-lipgloss.Width(left)-lipgloss.Width(right))) + right
}

// footer says which keys there are, and what is above and below the screen.
func (r *renderer) footer(above, below int) []string {
	if r.s.Once {
		return nil
	}
	keys := "q quit  p pause  ? help"
	if r.s.Paused {
		keys = "q quit  p go on  ? help"
	}
	if r.s.Help {
		keys = "q quit  ? back"
	}
	if above > 0 {
		keys += fmt.Sprintf("  ↑ %d more", above)
	}
	if below > 0 {
		keys += fmt.Sprintf("  ↓ %d more", below)
	}
	return []string{r.look.quiet.Render(keys)}
}

func (r *renderer) body() []string {
	if r.s.Help {
		return strings.Split(strings.TrimSpace(help), "\n")
	}
	parts := [][]string{r.problems()}
	if !r.p.Redis.Answered.IsZero() || !r.p.RabbitMQ.Answered.IsZero() {
		parts = append(parts, r.summary(), r.tiers(), r.shards(), r.bridges())
	}
	var lines []string
	for _, part := range parts {
		if len(lines) > 0 && len(part) > 0 && r.room == airy {
			lines = append(lines, "")
		}
		lines = append(lines, part...)
	}
	return lines
}

func (r *renderer) problems() []string {
	p := r.p
	if len(p.Problems) == 0 {
		if p.Redis.Answered.IsZero() || p.RabbitMQ.Answered.IsZero() {
			return []string{r.look.quiet.Render("asking Redis and RabbitMQ …")}
		}
		return []string{r.look.good.Render("ok") + "  no problems"}
	}
	var lines []string
	for _, problem := range p.Problems {
		mark, style := "! ", r.look.warn
		if problem.Grave {
			mark, style = "!!", r.look.grave
		}
		age := "now"
		if old := p.At.Sub(problem.Since); old >= time.Second {
			age = span(old.Truncate(time.Second))
		}
		line := fmt.Sprintf("%s %-6s %s", style.Render(mark), age, style.Render(printable.Text(problem.Text)))
		do := printable.Text(problem.Do)
		switch whole := line + ": " + do; {
		case do == "":
			lines = append(lines, line)
		case r.room == airy && lipgloss.Width(whole) > r.width:
			lines = append(lines, line, strings.Repeat(" ", 10)+do)
		default:
			lines = append(lines, whole)
		}
	}
	return lines
}

// summary has what matters most in as many lines as it takes.
func (r *renderer) summary() []string {
	p := r.p
	late := "late " + unknown
	if p.Late.Messages > 0 {
		late = "late p50 " + span(p.Late.P50) + ", p99 " + span(p.Late.P99)
	}
	due := "next due " + unknown
	if !p.NextDue.IsZero() {
		due = "next due in " + until(p.Now, p.NextDue)
	}
	redis := r.flow(p.Redis.IsAway(),
		"parked "+number(p.Parked), "promoting "+number(p.Promoting),
		"in "+p.In.String()+"/s", "out "+p.Out.String()+"/s", late, due)
	queue := func(name string, n *int, style lipgloss.Style) string {
		text := name + " " + waiting(n)
		if n != nil && *n > 0 {
			return style.Render(text)
		}
		return text
	}
	broker := r.flow(p.RabbitMQ.IsAway(),
		queue("inbox", p.Inbox.Messages, lipgloss.NewStyle()), "in "+p.Inbox.In.String()+"/s",
		queue("unrouted", p.Unrouted.Messages, r.look.grave), queue("quarantine", p.Quarantine.Messages, r.look.warn),
		queue("due, not taken", p.NotTaken, lipgloss.NewStyle()))
	return append(redis, broker...)
}

// flow puts items into lines.
func (r *renderer) flow(old bool, items ...string) []string {
	var lines []string
	line := ""
	for _, item := range items {
		switch {
		case line == "":
			line = item
		case lipgloss.Width(line)+3+lipgloss.Width(item) > min(r.width, 120):
			lines = append(lines, line)
			line = item
		default:
			line += "   " + item
		}
	}
	return r.greyed(old, append(lines, line))
}

// greyed makes lines look old where they are.
func (r *renderer) greyed(old bool, lines []string) []string {
	if old {
		for i, line := range lines {
			lines[i] = r.look.quiet.Render(ansi.Strip(line))
		}
	}
	return lines
}

const help = `
q, ctrl+c      quit
p, space       pause and go on: nothing is asked meanwhile
up, down, page up, page down, home   scroll

TTL      that of a tier and its lanes; ready: straight to the ready exchange
TIER     messages with exactly this delay, in RabbitMQ
LANES    promoted messages, in RabbitMQ, of all shards
PARKED   messages in Redis that will be promoted into this lane
in, out  messages per second: of tiers and lanes in the last 20 s, as the
         management API counts; of shards in the last 10 s
late     how long after due a message was delivered: 99 of 100 in the last
         minute were no later. As consumers tell Redis
NEXT DUE in Redis, or in RabbitMQ after promotion
lane p99, ready p99   of a bridge, in the last minute: promoted after the
         instant for it, which makes nothing late in itself; and in
         RabbitMQ after due, of what goes straight to the ready exchange
–        not known
`
