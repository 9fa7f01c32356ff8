package main

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// working shows on a terminal's standard error that a command is at work, and at what.
type working struct{ bar *progressbar.ProgressBar }

// newWorking shows it until clear is called. Elsewhere than on a terminal it shows nothing.
func (a *app) newWorking(what string) *working {
	if !isTerminal(a.err) {
		return &working{}
	}
	return &working{progressbar.NewOptions64(-1,
		progressbar.OptionSetWriter(a.err), progressbar.OptionSetDescription(what), progressbar.OptionSpinnerType(14),
		progressbar.OptionSetElapsedTime(true), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond),
	)}
}

// describe says what it is at now.
func (w *working) describe(what string) {
	if w.bar != nil {
		w.bar.Describe(what)
	}
}

// clear leaves nothing of it on the terminal.
func (w *working) clear() {
	if w.bar != nil {
		_ = w.bar.Finish()
	}
}
