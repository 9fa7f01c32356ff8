package redisbridge_test

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

// logCapture keeps what a bridge logs.
type logCapture struct {
	mu   sync.Mutex
	text strings.Builder
}

func newLogCapture() *logCapture { return &logCapture{} }

func (l *logCapture) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Write takes one line.
func (l *logCapture) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logCapture) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// count returns in how many lines text occurs.
func (l *logCapture) count(text string) int {
	n := 0
	for line := range strings.Lines(l.all()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func (l *logCapture) await(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(patience); l.count(text) == 0; pauseShortly() {
		if time.Now().After(deadline) {
			t.Fatalf("not logged within %v: %s\n%s", patience, text, l.all())
		}
	}
}
