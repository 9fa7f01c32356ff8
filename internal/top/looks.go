package top

import "charm.land/lipgloss/v2"

// looks are the styles. They are of the terminal's own palette, and leave its background
// alone, so that they can be read on a light one and on a dark one; and nothing is said by
// colour alone.
type looks struct {
	title, quiet, grave, warn, good lipgloss.Style
}

func newLooks() looks {
	plain := lipgloss.NewStyle()
	return looks{
		title: plain.Bold(true), quiet: plain.Faint(true),
		grave: plain.Bold(true).Foreground(lipgloss.Red), warn: plain.Foreground(lipgloss.Yellow), good: plain.Foreground(lipgloss.Green),
	}
}
