package traffic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// receipt is what `publish` prints for each message that a server has.
type receipt struct {
	Line      int          `json:"line,omitempty"` // of --file
	ID        string       `json:"id"`
	Key       string       `json:"key"`
	Path      message.Path `json:"path,omitempty"`
	Due       time.Time    `json:"due,omitzero"`
	Duplicate bool         `json:"duplicate,omitempty"`
	Cancelled bool         `json:"cancelled,omitempty"`
	Past      bool         `json:"past,omitempty"`
}

func newReceipt(p *publication) receipt {
	return receipt{
		Line: p.line, ID: p.message.ID, Key: p.message.RoutingKey,
		Path: p.receipt.Path, Due: p.receipt.Due.UTC().Truncate(time.Millisecond),
		Duplicate: p.receipt.Duplicate, Cancelled: p.cancelled, Past: p.receipt.Past,
	}
}

// note says what is unusual about a receipt.
func (r receipt) note() string {
	switch {
	case r.Past:
		return fmt.Sprintf("the instant %s has passed: delivered at once", r.Due.Format(cli.InstantFormat))
	case r.Duplicate:
		return fmt.Sprintf("this message was published before, due %s: nothing was changed", r.Due.Format(cli.InstantFormat))
	case r.Cancelled:
		return "this ID was cancelled before: nothing was published"
	}
	return ""
}

func (r receipt) row() []string {
	note := ""
	switch {
	case r.Past:
		note = "past"
	case r.Duplicate:
		note = "duplicate"
	case r.Cancelled:
		note = "cancelled before"
	}
	return []string{r.ID, r.Key, cmp.Or(string(r.Path), "-"), cli.InstantText(r.Due), note}
}

func (j *publishJob) print(receipts []receipt) error {
	return cli.Emit(j.Out, j.format, receipts, []string{"ID", "KEY", "PATH", "DUE", "NOTE"}, receipt.row)
}

// publishReport says what became of each line, in the order of the lines.
type publishReport struct {
	job      *publishJob
	progress *progress
	stop     func()    // ends reading
	receipts []receipt // unless they are printed as they come

	last                             int // the number of the last line
	published, duplicates, conflicts int
	rejected, unconfirmed, failed    int
	server                           error // why Redis could not be reached
	hopeless                         error // why no other line can do better
	output                           error // why standard output cannot be written
	blocked                          error // why the broker takes nothing for now
}

func (r *publishReport) add(p *publication) {
	r.last = p.line
	var rejected rejectedLine
	switch {
	case p.err == nil && p.receipt.Duplicate:
		r.duplicates++
		r.succeed(newReceipt(p))
	case p.err == nil:
		r.published++
		r.succeed(newReceipt(p))
	case errors.Is(p.err, producer.ErrConflict):
		r.conflicts++
		r.say("line %d: %s", p.line, cli.OneLine(p.err))
	case errors.As(p.err, &rejected), errors.Is(p.err, producer.ErrInvalid):
		r.rejected++
		r.say("line %d: rejected: %s", p.line, cli.OneLine(p.err))
	case errors.Is(p.err, producer.ErrUnconfirmed):
		r.unconfirmed++
		r.say("line %d: %s", p.line, cli.OneLine(p.err))
	default:
		r.failed++
		r.say("line %d: %s", p.line, cli.OneLine(p.err))
	}
	switch {
	case r.server == nil && errors.Is(p.err, redisbridge.ErrUnreachable):
		r.server = p.err // lines whose delay equals a tier do not need it
	case r.hopeless == nil && (errors.Is(p.err, producer.ErrMissing) || errors.Is(p.err, producer.ErrForbidden) ||
		errors.Is(p.err, redisbridge.ErrConfiguration)):
		r.hopeless = p.err
		r.stop()
	}
	if errors.Is(p.err, broker.ErrBlocked) {
		r.blocked = broker.ErrBlocked
	}
	r.progress.add(p)
}

func (r *publishReport) succeed(receipt receipt) {
	if note := receipt.note(); note != "" && !receipt.Duplicate {
		r.say("line %d: %s: %s", receipt.Line, receipt.ID, note)
	}
	if r.job.format != cli.FormatJSONL {
		r.receipts = append(r.receipts, receipt)
		return
	}
	if err := json.NewEncoder(r.job.Out).Encode(receipt); r.output == nil {
		r.output = err
	}
}

// say writes one line to standard error, beside the progress bar.
func (r *publishReport) say(format string, args ...any) {
	r.progress.clear()
	fmt.Fprintln(r.job.Err, printable.Text(fmt.Sprintf(format, args...)))
}

// close prints the rest, and returns the error that decides on the exit code.
func (r *publishReport) close(ctx context.Context, lost error) error {
	r.progress.clear()
	if r.job.format != cli.FormatJSONL {
		r.output = r.job.print(r.receipts)
	}
	total := r.published + r.duplicates + r.conflicts + r.rejected + r.unconfirmed + r.failed
	r.say("%d of %d messages published, %d duplicates, %d conflicts, %d lines rejected, %d unconfirmed, %d not published for other reasons",
		r.published, total, r.duplicates, r.conflicts, r.rejected, r.unconfirmed, r.failed)
	bad := total - r.published - r.duplicates
	switch {
	case ctx.Err() != nil:
		r.say("interrupted: nothing after line %d was published%s", r.last, r.because())
		return ctx.Err()
	case r.hopeless != nil, lost != nil:
		r.say("stopped: nothing after line %d was published", r.last)
		return cmp.Or(r.hopeless, lost)
	case r.server != nil:
		return r.server
	case r.output != nil:
		return fmt.Errorf("standard output: %w", r.output)
	case bad > 0:
		return fmt.Errorf("%d of %d lines were not published, or may not have been; see above%s", bad, total, r.because())
	}
	return nil
}

// because repeats in the last line what a long report says further up.
func (r *publishReport) because() string {
	if r.blocked == nil {
		return ""
	}
	return ": " + r.blocked.Error()
}

// progress is a bar on the terminal, or nothing.
type progress struct {
	bar   *progressbar.ProgressBar
	bytes bool // the bar's unit; otherwise messages
}

// newProgress shows a bar where a person looks at standard error, and standard
// output does not go to the same terminal meanwhile. size is the input's, in
// bytes, or -1.
func (j *publishJob) newProgress(size int64) *progress {
	if !cli.IsTerminal(j.Err) || j.format == cli.FormatJSONL && cli.IsTerminal(j.Out) {
		return &progress{}
	}
	options := []progressbar.Option{
		progressbar.OptionSetWriter(cli.Raw(j.Err)), progressbar.OptionSetDescription("publishing"), progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100 * time.Millisecond), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetSpinnerChangeInterval(0), // the library's own ticker races with Add
	}
	if size >= 0 {
		options = append(options, progressbar.OptionShowBytes(true))
	} else {
		options = append(options, progressbar.OptionShowIts(), progressbar.OptionSetItsString("msg"))
	}
	return &progress{bytes: size >= 0, bar: progressbar.NewOptions64(size, options...)}
}

func (p *progress) add(done *publication) {
	switch {
	case p.bar == nil:
	case p.bytes:
		_ = p.bar.Add(done.bytes)
	default:
		_ = p.bar.Add(1)
	}
}

func (p *progress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
