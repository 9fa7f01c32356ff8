package traffic

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/message"
)

const (
	// notNow is the exit code by which a program says that it has only failed for now: EX_TEMPFAIL
	// of sysexits.h.
	notNow = 75
	// endWithin is how long a program may take to end after SIGTERM.
	endWithin = 5 * time.Second
	// lastWords is how much of a program's standard error goes into the message's history.
	lastWords = 500
)

// external is a handler that runs a command for each message.
type external struct {
	command string
	timeout time.Duration
	output  io.Writer
}

// Handle hands the body to the program's standard input, and all else to its environment. What
// it prints goes to output.
func (p *external) Handle(ctx context.Context, m message.Message) error {
	environment, err := environmentOf(&m)
	if err != nil {
		return consumer.Reject(err)
	}
	if p.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, p.timeout, fmt.Errorf("it took longer than --exec-timeout (%v)", p.timeout))
		defer cancel()
	}
	words := &tail{}
	cmd := exec.CommandContext(ctx, "sh", "-c", p.command) //nolint:gosec // it is what the user has asked for
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stdin = bytes.NewReader(m.Body)
	cmd.Stdout, cmd.Stderr = p.output, io.MultiWriter(p.output, words)
	cmd.WaitDelay = endWithin
	endAsGroup(cmd)
	err = cmd.Run()
	if err == nil {
		return nil
	}
	if ended := context.Cause(ctx); ended != nil {
		err = fmt.Errorf("%w: %w", ended, err)
	}
	err = fmt.Errorf("--exec: %w%s", err, words.last())
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && failed.ExitCode() == notNow {
		return consumer.RetryForever(err)
	}
	return err
}

// environmentOf says of a message what a program may want to know. A value that is not known
// is an empty one, so that none of an outer program is taken for the message's.
func environmentOf(m *message.Message) ([]string, error) {
	headers := m.Headers
	if headers == nil {
		headers = map[string]any{}
	}
	asJSON, err := json.Marshal(headers)
	if err != nil {
		return nil, fmt.Errorf("--exec: the headers cannot be written as JSON: %w", err)
	}
	var environment []string
	for _, v := range []struct{ name, value string }{
		{"ID", m.ID}, {"ROUTING_KEY", m.RoutingKey}, {"ENTRY", m.Entry}, {"HEADERS", string(asJSON)},
		{"CONTENT_TYPE", m.ContentType}, {"CONTENT_ENCODING", m.ContentEncoding}, {"CORRELATION_ID", m.CorrelationID},
		{"REPLY_TO", m.ReplyTo}, {"TYPE", m.Type}, {"APP_ID", m.AppID}, {"USER_ID", m.UserID}, {"TIMESTAMP", instantOrNothing(m.Timestamp)},
		{"PUBLISHED", instantOrNothing(m.Journey.Published)}, {"DUE", instantOrNothing(m.Journey.Due)},
		{"PATH", string(m.Journey.Path)}, {"ATTEMPT", strconv.Itoa(m.Journey.Attempts + 1)},
	} {
		if strings.ContainsRune(v.value, 0) {
			return nil, fmt.Errorf("--exec: %q of the message has a NUL, which no environment variable can have", strings.ToLower(v.name))
		}
		environment = append(environment, "DELAYBRIDGE_MESSAGE_"+v.name+"="+v.value)
	}
	return environment, nil
}

func instantOrNothing(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return cli.InstantText(t)
}

// lockedWriter is for several programs at a time.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// tail keeps the end of what is written to it.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-lastWords):]
	return len(p), nil
}

// last is the last line, with a colon before it.
func (t *tail) last() string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.text), "?"))
	if text == "" {
		return ""
	}
	return ": " + text[strings.LastIndexByte(text, '\n')+1:]
}
