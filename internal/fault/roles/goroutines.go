package roles

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/internal/sleep"
)

// countedOver is the time of which a process notes down the least number of goroutines.
const countedOver = 3 * time.Second

// count notes down how many goroutines the process has, until ctx ends.
func (p *player) count(ctx context.Context) {
	f, err := os.Create(p.goroutinesFile())
	if err != nil {
		panic(err)
	}
	defer func() { _ = f.Close() }()
	const looks = 30
	for {
		least := runtime.NumGoroutine()
		for range looks {
			sleep.For(ctx, countedOver/looks)
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

func (r *Role) goroutinesFile() string {
	return filepath.Join(r.Dir, fmt.Sprintf("%s-%d.goroutines", r.Name, r.Life))
}

// Goroutines returns the least numbers of goroutines that the process has noted down in this life,
// one for each few seconds. There are none before the first of them are over.
func (r *Role) Goroutines() ([]int, error) {
	path := r.goroutinesFile()
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
