package fault

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/internal/fault/history"
)

const (
	// countedOver is the time of which a process notes down the least number of goroutines.
	countedOver = 3 * time.Second
	// startWithin is what a process gets to come to rest that has just begun.
	startWithin = 2 * time.Minute
)

// count notes down how many goroutines the process has, until ctx ends.
func (p *player) count(ctx context.Context) {
	f, err := os.Create(goroutinesFile(p.Dir, p.Name, p.Life))
	if err != nil {
		panic(err)
	}
	defer func() { _ = f.Close() }()
	const looks = 30
	for {
		least := runtime.NumGoroutine()
		for range looks {
			pause(ctx, countedOver/looks)
			least = min(least, runtime.NumGoroutine())
		}
		if ctx.Err() != nil {
			return
		}
		if _, err := fmt.Fprintln(f, least); err != nil {
			panic(err)
		}
	}
}

func goroutinesFile(dir, name string, life int) string {
	return filepath.Join(dir, fmt.Sprintf("%s-%d.goroutines", name, life))
}

// goroutines returns what the process has noted down in this life.
func (p *process) goroutines() ([]int, error) {
	p.mu.Lock()
	path := goroutinesFile(p.run.dir, p.role.Name, p.role.Life)
	p.mu.Unlock()
	content, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	var counts []int
	for text := range strings.FieldsSeq(string(content)) {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		counts = append(counts, n)
	}
	return counts, err
}

// compareGoroutines starts the processes anew, and returns how many goroutines each had and
// has. At rest it has the same to do in either life.
func (w *world) compareGoroutines(ctx context.Context) (all []history.Process, err error) {
	for name, p := range w.processes {
		if slices.Contains(w.customers(), name) || p.role.inPython() {
			continue
		}
		counts, err := p.goroutines()
		if err != nil {
			return nil, err
		}
		if len(counts) == 0 {
			return nil, fmt.Errorf("%s has not counted its goroutines", name)
		}
		all = append(all, history.Process{Name: name, Old: counts[len(counts)-1]})
		if err := p.terminate(); err != nil {
			w.surprise(err.Error())
		}
		if err := p.start(nil); err != nil {
			return nil, err
		}
	}
	deadline := time.Now().Add(startWithin)
	for i := range all {
		for all[i].Fresh == 0 {
			if time.Now().After(deadline) {
				return nil, fmt.Errorf("%s has not come to rest within %v of its start", all[i].Name, startWithin)
			}
			pause(ctx, 200*time.Millisecond)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			counts, err := w.processes[all[i].Name].goroutines()
			if err != nil {
				return nil, err
			}
			if n := len(counts); n > 2 && counts[n-1] == counts[n-2] {
				all[i].Fresh = counts[n-1]
			}
		}
	}
	return all, nil
}
