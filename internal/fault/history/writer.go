package history

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Writer appends one process' events to a file. Its methods may be called by
// many goroutines at once.
type Writer struct {
	who  string
	mu   sync.Mutex // keeps lines in the order of their times
	file *os.File
}

// Create creates the file path, which must not exist, for the events of who.
func Create(path, who string) (*Writer, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &Writer{who: who, file: file}, nil
}

// Write writes e down, as of now if it has no time. When it has returned nil, the
// system has the whole event, and kill -9 of this process cannot lose it.
func (w *Writer) Write(e Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.At == 0 {
		e.At = Now()
	}
	e.Who = w.who
	if err := e.valid(); err != nil {
		return fmt.Errorf("history of %s: %s: %w", w.who, e.Kind, err)
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	// One system call: a process that is killed tears at most its last line.
	_, err = w.file.Write(append(line, '\n'))
	return err
}

// Close closes the file.
func (w *Writer) Close() error { return w.file.Close() }

// Now returns the time of the machine's real-time clock in Unix microseconds. It
// asks the system, since a run falsifies time.Now in some processes.
func Now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &t); err != nil {
		panic(err) // there is no machine without this clock
	}
	return t.Nano() / int64(time.Microsecond)
}

// After returns the first instant at which a message may come that is asked for at at,
// Unix microseconds, and delayed by d: due times are whole milliseconds, and so is
// when a delay begins to run.
func After(at int64, d time.Duration) time.Time {
	return time.UnixMicro(at).Truncate(time.Millisecond).Add(d)
}
