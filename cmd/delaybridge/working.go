package main

import (
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// workingTurn is how often the sign of a command at work moves.
const workingTurn = 100 * time.Millisecond

// working shows on a terminal's standard error that a command is at work, and at what.
type working struct {
	bar *progressbar.ProgressBar // nil where nothing is shown
	end func()
}

// newWorking shows it until clear is called. Elsewhere than on a terminal it shows nothing.
func (a *app) newWorking(what string) *working {
	if !isTerminal(a.err) {
		return &working{}
	}
	w := &working{bar: progressbar.NewOptions64(-1,
		progressbar.OptionSetWriter(raw(a.err)), progressbar.OptionSetDescription(what), progressbar.OptionSpinnerType(14),
		progressbar.OptionSetElapsedTime(true), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetSpinnerChangeInterval(0), // the library's own ticker races with Describe
	)}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(workingTurn)
		defer ticker.Stop()
		for {
			_ = w.bar.RenderBlank()
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
		}
	}()
	w.end = sync.OnceFunc(func() {
		close(stop)
		<-stopped
		_ = w.bar.Finish()
	})
	return w
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
		w.end()
	}
}
