package traffic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/producer"
)

// file publishes the messages of a file, or of standard input. Everything is
// reported in the order of the lines.
func (j *publishJob) file(ctx context.Context, name string) error {
	input, size := j.In, int64(-1)
	if name != "-" {
		file, err := os.Open(name) //nolint:gosec // the user named it
		if err != nil {
			return cli.Usage(fmt.Errorf("--file: %w", err))
		}
		defer func() { _ = file.Close() }()
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
		input = file
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	report := &publishReport{job: j, progress: j.newProgress(size), stop: stop}
	lost := j.session(ctx, func(p *producer.Producer, ended <-chan struct{}) {
		go func() {
			select {
			case <-ended: // it gave up: there is no point in reading on
				stop()
			case <-reading.Done():
			}
		}()
		for next := range j.publishAll(reading, p, readAll(reading, input)) {
			<-next.done
			report.add(next)
		}
	})
	return report.close(ctx, lost)
}

// publishAll starts to publish line after line until ctx ends, and passes the
// lines on in their order. At most j.inFlight of them are not done.
func (j *publishJob) publishAll(ctx context.Context, p *producer.Producer, lines <-chan *publication) <-chan *publication {
	window := make(chan *publication, j.inFlight-1)
	go func() {
		defer close(window)
		for {
			select {
			case <-ctx.Done():
				return
			case next, ok := <-lines:
				if !ok {
					return
				}
				window <- next
				go j.publishLine(ctx, p, next)
			}
		}
	}()
	return window
}

func (j *publishJob) publishLine(ctx context.Context, p *producer.Producer, next *publication) {
	defer close(next.done)
	if next.err == nil {
		j.publish(ctx, p, next)
		if errors.Is(next.err, producer.ErrInvalid) { // its entry is not configured
			next.err = rejectedLine{next.err}
		}
		next.message.Body = nil // the line may have to wait for its turn in the report
	}
}

// rejectedLine is the error of a line that cannot be published as it is.
type rejectedLine struct{ error }

func (r rejectedLine) Unwrap() error { return r.error }

// readAll parses line after line, until the input or ctx ends. A read from a
// terminal or a pipe cannot be interrupted: it is left to itself.
func readAll(ctx context.Context, input io.Reader) <-chan *publication {
	lines := make(chan *publication)
	go func() {
		defer close(lines)
		for reader := cli.NewLineReader(input); ; {
			line, err := reader.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			next := &publication{line: reader.N, bytes: len(line) + 1, err: err, done: make(chan struct{})}
			if err == nil {
				err = next.parse(line)
			}
			if err != nil {
				next.err = rejectedLine{err}
			}
			select {
			case lines <- next:
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines
}
