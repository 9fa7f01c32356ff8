package lifecycle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// HaltGrace is how long a server may take to shut down before it is killed.
const HaltGrace = 30 * time.Second

// An Instance is one server as a process or a container.
type Instance interface {
	// Start launches the server on the data it had before, if any, and does not
	// wait until it answers.
	Start(ctx context.Context) error
	// Halt ends the server in an orderly way, if it runs, and keeps its data.
	Halt(ctx context.Context) error
	// Kill ends the server without a warning and keeps its data.
	Kill(ctx context.Context) error
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
	// Discard ends the server, if it runs, and removes its data.
	Discard(ctx context.Context) error
	// Running says whether the server has been started and has not ended.
	Running(ctx context.Context) bool
	// LastLines returns the end of the server's log, for an error message.
	LastLines(ctx context.Context) string
	// WriteLog writes all of it.
	WriteLog(ctx context.Context, to io.Writer) error
}

// A Server is what all servers have in common.
type Server struct {
	Name     string // for people
	Instance Instance
	// Probe returns nil when the server does its work.
	Probe func(context.Context) error
}

// Kill ends the server at once, as kill -9 would. Its data stay for
// [Server.Restart].
func (s *Server) Kill(ctx context.Context) error {
	return s.Wrap("kill", s.Instance.Kill(ctx))
}

// Pause freezes the server: connections stay open and are not answered.
func (s *Server) Pause(ctx context.Context) error {
	return s.Wrap("pause", s.Instance.Pause(ctx))
}

// Resume lets a paused server go on.
func (s *Server) Resume(ctx context.Context) error {
	return s.Wrap("resume", s.Instance.Resume(ctx))
}

// Restart shuts the server down if it runs, starts it again with the same data,
// ports and name, and returns when it answers.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Instance.Halt(ctx); err != nil {
		return s.Wrap("halt", err)
	}
	return s.Start(ctx)
}

// Stop ends the server and removes its data.
func (s *Server) Stop(ctx context.Context) error {
	return s.Wrap("stop", s.Instance.Discard(ctx))
}

// Start launches the server and returns when it answers.
func (s *Server) Start(ctx context.Context) error {
	if err := s.Instance.Start(ctx); err != nil {
		return s.Wrap("start", err)
	}
	return s.Wrap("start", s.awaitReady(ctx))
}

// StartOrDiscard is Start for a new server: a failed one leaves nothing behind.
func (s *Server) StartOrDiscard(ctx context.Context) error {
	err := s.Start(ctx)
	if err == nil {
		return nil
	}
	// ctx may be what ended the start; cleaning up must work all the same.
	return errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
}

// SaveLog writes all that the server has logged since it was made to a file.
func (s *Server) SaveLog(ctx context.Context, path string) (err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return s.Wrap("save the log", s.Instance.WriteLog(ctx, file))
}

// awaitReady probes the server until it does its work.
func (s *Server) awaitReady(ctx context.Context) error {
	err := Await(ctx, func(ctx context.Context) error {
		err := s.Probe(ctx)
		if err != nil && ctx.Err() == nil && !s.Instance.Running(ctx) {
			return Hopeless(errors.New("it ended while starting"))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%w; its last words:\n%s", err, s.Instance.LastLines(context.WithoutCancel(ctx)))
	}
	return nil
}

// Wrap names the server and what was tried with it.
func (s *Server) Wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", doing, s.Name, err)
}

// Tail returns the last lines of a log: enough for the report of an Erlang crash.
func Tail(log []byte) string {
	const most = 40
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-most):], []byte("\n")))
}
