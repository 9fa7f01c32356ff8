package fault

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// countedOver is the time of which a process notes down the least number of goroutines.
const countedOver = 3 * time.Second

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
