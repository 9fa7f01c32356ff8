package traffic

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/producer"
)

// Among thousands of lines the last one still says what the matter is.
func TestLastLineSaysThatTheBrokerIsBlocked(t *testing.T) {
	t.Parallel()
	for _, interrupted := range []bool{false, true} {
		t.Run(fmt.Sprint("interrupted ", interrupted), func(t *testing.T) {
			t.Parallel()
			var said bytes.Buffer
			job := &publishJob{App: &cli.App{Streams: cli.Streams{Out: io.Discard, Err: &said}}, format: cli.FormatJSONL}
			r := &publishReport{job: job, progress: &progress{}, stop: func() {}}
			r.add(&publication{line: 1, err: fmt.Errorf("%w: %w", producer.ErrUnconfirmed, broker.ErrBlocked)})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if interrupted {
				cancel()
			}
			last := fmt.Sprint(r.close(ctx, nil))
			if interrupted { // then the error is not printed
				lines := strings.Split(strings.TrimSpace(said.String()), "\n")
				last = lines[len(lines)-1]
			}
			if !strings.Contains(last, "blocked") {
				t.Errorf("the last line is %q", last)
			}
		})
	}
}
