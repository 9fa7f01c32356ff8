package top

import (
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/delaybridge/delaybridge/internal/printable"
)

// column of a table. Where there is no room for all, those that matter least go first.
type column struct {
	title string
	left  bool // aligned, and cut where it does not fit
	keep  int  // 0 stays to the last
	gap   int  // spaces before it, beside one
	least int  // width, so that figures do not push each other about
	most  int  // width that it needs to be worth showing; 0 is all of it
}

// table lays cells out in columns.
type table struct {
	columns []column
	rows    [][]string
	styles  [][]lipgloss.Style // of cells; nil is plain
}

// add escapes what is not printable.
func (t *table) add(cells ...string) {
	for i, cell := range cells {
		cells[i] = printable.Text(cell)
	}
	t.rows = append(t.rows, cells)
}

// fit returns the columns that a width has room for, and how wide each is.
func (t *table) fit(width int) (which, widths []int) {
	all := make([]int, len(t.columns))
	for i, c := range t.columns {
		all[i] = max(c.least, lipgloss.Width(c.title))
		for _, row := range t.rows {
			all[i] = max(all[i], lipgloss.Width(row[i]))
		}
	}
	for i := range t.columns {
		which = append(which, i)
	}
	for len(which) > 1 {
		sum, least := 0, 0
		for n, i := range which {
			sum += all[i]
			if most := t.columns[i].most; most > 0 && all[i] > most {
				sum += most - all[i]
			}
			if n > 0 {
				sum += 1 + t.columns[i].gap
			}
			if t.columns[i].keep > t.columns[which[least]].keep {
				least = n
			}
		}
		if sum <= width || t.columns[which[least]].keep == 0 {
			break
		}
		which = append(which[:least], which[least+1:]...)
	}
	for _, i := range which {
		widths = append(widths, all[i])
	}
	return which, widths
}

// lines are those of the table: its titles first.
func (t *table) lines(width int, look looks) []string {
	which, widths := t.fit(width)
	line := func(cell func(i int) string, style func(i int, text string) string) string {
		var b strings.Builder
		for n, i := range which {
			c := t.columns[i]
			if n > 0 {
				b.WriteString(strings.Repeat(" ", 1+c.gap))
			}
			text := cell(i)
			room := max(0, widths[n]-lipgloss.Width(text))
			switch {
			case !c.left:
				b.WriteString(strings.Repeat(" ", room) + style(i, text))
			case n == len(which)-1:
				b.WriteString(style(i, text))
			default:
				b.WriteString(style(i, text) + strings.Repeat(" ", room))
			}
		}
		return b.String()
	}
	lines := []string{line(
		func(i int) string { return t.columns[i].title },
		func(_ int, text string) string { return look.title.Render(text) },
	)}
	for r := range t.rows {
		lines = append(lines, line(
			func(i int) string { return t.rows[r][i] },
			func(i int, text string) string {
				if text == unknown || text == "0" {
					return look.quiet.Render(text)
				}
				if r < len(t.styles) && i < len(t.styles[r]) {
					return t.styles[r][i].Render(text)
				}
				return text
			},
		))
	}
	return lines
}
