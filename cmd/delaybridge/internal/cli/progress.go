package cli

import (
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// workingTurn is how often the sign of a command at work moves.
const workingTurn = 100 * time.Millisecond

// Working shows on a terminal's standard error that a command is at work, and at what.
type Working struct {
	bar *progressbar.ProgressBar // nil where nothing is shown
	end func()
}

// NewWorking shows it until Clear is called. Elsewhere than on a terminal it shows nothing.
func (a *App) NewWorking(what string) *Working {
	if !IsTerminal(a.Err) {
		return &Working{}
	}
	w := &Working{bar: progressbar.NewOptions64(-1,
		progressbar.OptionSetWriter(Raw(a.Err)), progressbar.OptionSetDescription(what), progressbar.OptionSpinnerType(14),
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

// Describe says what it is at now.
func (w *Working) Describe(what string) {
	if w.bar != nil {
		w.bar.Describe(what)
	}
}

// Clear leaves nothing of it on the terminal.
func (w *Working) Clear() {
	if w.bar != nil {
		w.end()
	}
}

// NewBar shows how far a command is, where a person looks at standard error. One that streams
// its output has no bar on the same terminal.
func (a *App) NewBar(what string, streams bool) *Bar {
	if !IsTerminal(a.Err) || streams && IsTerminal(a.Out) {
		return &Bar{}
	}
	return &Bar{progressbar.NewOptions(1000, progressbar.OptionSetWriter(Raw(a.Err)), progressbar.OptionSetDescription(what),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionSetSpinnerChangeInterval(0))}
}

// Bar shows how much of the whole is done, or nothing.
type Bar struct{ bar *progressbar.ProgressBar }

// Reached sets the bar to a part of the whole, up to 1.
func (p *Bar) Reached(done float64) {
	if p.bar != nil {
		_ = p.bar.Set(int(1000 * done))
	}
}

// Clear leaves nothing of it on the terminal.
func (p *Bar) Clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
