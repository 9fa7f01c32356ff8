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

// percentBar shows how far a command is, where a person looks at standard error. One that streams
// its output has no bar on the same terminal.
func (a *app) percentBar(what string, streams bool) *percentBar {
	if !isTerminal(a.err) || streams && isTerminal(a.out) {
		return &percentBar{}
	}
	return &percentBar{progressbar.NewOptions(1000, progressbar.OptionSetWriter(raw(a.err)), progressbar.OptionSetDescription(what),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionSetSpinnerChangeInterval(0))}
}

type percentBar struct{ bar *progressbar.ProgressBar }

// reached sets the bar to a part of the whole, up to 1.
func (p *percentBar) reached(done float64) {
	if p.bar != nil {
		_ = p.bar.Set(int(1000 * done))
	}
}

func (p *percentBar) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
