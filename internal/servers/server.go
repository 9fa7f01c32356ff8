package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// An instance is one server as a process or a container.
type instance interface {
	// start launches the server on the data it had before, if any, and does not
	// wait until it answers.
	start(ctx context.Context) error
	// halt ends the server in an orderly way, if it runs, and keeps its data.
	halt(ctx context.Context) error
	// kill ends the server without a warning and keeps its data.
	kill(ctx context.Context) error
	pause(ctx context.Context) error
	resume(ctx context.Context) error
	// discard ends the server, if it runs, and removes its data.
	discard(ctx context.Context) error
	// running says whether the server has been started and has not ended.
	running(ctx context.Context) bool
	// lastLines returns the end of the server's log, for an error message.
	lastLines(ctx context.Context) string
	// writeLog writes all of it.
	writeLog(ctx context.Context, to io.Writer) error
}

// server is what all servers have in common.
type server struct {
	name     string
	instance instance
	// probe returns nil when the server does its work.
	probe func(context.Context) error
}

// Kill ends the server at once, as kill -9 would. Its data stay for
// [server.Restart].
//
// RabbitMQ (3.10, 4.0 and 4.3 alike) syncs its list of quorum queues only a
// second or so after a declaration. A queue younger than that is gone after a
// kill, with its confirmed messages; a Restart in between makes it safe.
func (s *server) Kill(ctx context.Context) error {
	return s.wrap("kill", s.instance.kill(ctx))
}

// Pause freezes the server: connections stay open and are not answered.
func (s *server) Pause(ctx context.Context) error {
	return s.wrap("pause", s.instance.pause(ctx))
}

// Resume lets a paused server go on.
func (s *server) Resume(ctx context.Context) error {
	return s.wrap("resume", s.instance.resume(ctx))
}

// Restart shuts the server down if it runs, starts it again with the same data,
// ports and name, and returns when it answers.
func (s *server) Restart(ctx context.Context) error {
	if err := s.instance.halt(ctx); err != nil {
		return s.wrap("halt", err)
	}
	return s.start(ctx)
}

// Stop ends the server and removes its data.
func (s *server) Stop(ctx context.Context) error {
	return s.wrap("stop", s.instance.discard(ctx))
}

// start launches the server and returns when it answers.
func (s *server) start(ctx context.Context) error {
	if err := s.instance.start(ctx); err != nil {
		return s.wrap("start", err)
	}
	return s.wrap("start", s.awaitReady(ctx))
}

// startOrDiscard is start for a new server: a failed one leaves nothing behind.
func (s *server) startOrDiscard(ctx context.Context) error {
	err := s.start(ctx)
	if err == nil {
		return nil
	}
	// ctx may be what ended the start; cleaning up must work all the same.
	return errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
}

// SaveLog writes all that the server has logged since it was made to a file.
func (s *server) SaveLog(ctx context.Context, path string) (err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return s.wrap("save the log", s.instance.writeLog(ctx, file))
}

// awaitReady probes the server until it does its work.
func (s *server) awaitReady(ctx context.Context) error {
	err := await(ctx, func(ctx context.Context) error {
		err := s.probe(ctx)
		if err != nil && ctx.Err() == nil && !s.instance.running(ctx) {
			return hopeless{errors.New("it ended while starting")}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%w; its last words:\n%s", err, s.instance.lastLines(context.WithoutCancel(ctx)))
	}
	return nil
}

// wrap names the server and what was tried with it.
func (s *server) wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", doing, s.name, err)
}
