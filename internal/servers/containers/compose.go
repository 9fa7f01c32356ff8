package containers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/delaybridge/delaybridge/internal/servers/lifecycle"
)

// ComposeFile is the file at the root of the checkout that describes the containers.
const ComposeFile = "compose.yaml"

// A Composition is the running containers of compose.yaml.
type Composition struct {
	Ports []lifecycle.Port // in the order of their variables

	command []string // the compose command with all that is said to it each time
	dog     *lifecycle.Watchdog
}

// Compose prepares the containers of [ComposeFile], which is looked for in the working
// directory and above, and what removes them again. env is added to the environment of
// the compose command, name=value; each of the variables gets a port of its own.
func Compose(ctx context.Context, env []string, portVariables ...string) (*Composition, error) {
	program := []string{"docker", "compose"}
	if exec.CommandContext(ctx, "docker", "compose", "version").Run() != nil {
		program = []string{"docker-compose"}
		if _, err := exec.LookPath(program[0]); err != nil {
			return nil, fmt.Errorf("neither `docker compose` nor %w: install docker-compose", err)
		}
	}
	file, err := findComposeFile()
	if err != nil {
		return nil, err
	}
	ports, err := lifecycle.ReservePorts(len(portVariables))
	if err != nil {
		return nil, err
	}
	command := append([]string{"env"}, env...)
	for i, name := range portVariables {
		command = append(command, name+"="+strconv.Itoa(ports[i].Number))
	}
	command = append(append(command, program...), "-f", file, "-p", "delaybridge-"+strconv.Itoa(ports[0].Number))
	all := &Composition{Ports: ports, command: command}
	if all.dog, err = lifecycle.Watch(slices.Concat(command, []string{"down", "--volumes", "--timeout", "1"})...); err != nil {
		return nil, errors.Join(err, lifecycle.ReleasePorts(ports))
	}
	return all, nil
}

// findComposeFile looks in the working directory and above.
func findComposeFile() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		file := filepath.Join(dir, ComposeFile)
		if _, err := os.Stat(file); err == nil {
			return file, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("it is not in this folder or above: run this inside the checkout")
		}
	}
}

// run runs one compose command and returns its output.
func (c *Composition) run(ctx context.Context, args ...string) ([]byte, error) {
	full := append(append([]string(nil), c.command[1:]...), args...)
	output, err := exec.CommandContext(ctx, c.command[0], full...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("compose %s: %w: %s", args[0], err, lifecycle.Tail(output))
	}
	return output, nil
}

// Discard removes the containers, their network and their data.
func (c *Composition) Discard() error {
	return errors.Join(c.dog.Release(), lifecycle.ReleasePorts(c.Ports))
}

// A Service is one server of a composition.
type Service struct {
	all  *Composition
	name string
}

// Service returns the server of that name, which does not run yet.
func (c *Composition) Service(name string) *Service { return &Service{c, name} }

func (s *Service) do(ctx context.Context, args ...string) error {
	_, err := s.all.run(ctx, append(args, s.name)...)
	return err
}

// Start makes the container, or starts it on the data it had before.
func (s *Service) Start(ctx context.Context) error { return s.do(ctx, "up", "-d") }

// Halt asks the server to end, and kills it when it has not after [lifecycle.HaltGrace].
func (s *Service) Halt(ctx context.Context) error {
	// A frozen process cannot shut down; that it was not frozen is no failure.
	_ = s.Resume(ctx)
	return s.do(ctx, "stop", "--timeout", strconv.Itoa(int(lifecycle.HaltGrace.Seconds())))
}

// Kill ends the server at once.
func (s *Service) Kill(ctx context.Context) error { return s.do(ctx, "kill") }

// Pause freezes the container.
func (s *Service) Pause(ctx context.Context) error { return s.do(ctx, "pause") }

// Resume lets a frozen container go on.
func (s *Service) Resume(ctx context.Context) error { return s.do(ctx, "unpause") }

// Discard ends the server; its data go with the composition.
func (s *Service) Discard(ctx context.Context) error { return s.do(ctx, "kill") }

// Running says whether the container runs.
func (s *Service) Running(ctx context.Context) bool {
	// The one form of the question that compose 1.29 and 2 answer alike.
	output, err := s.all.run(ctx, "ps", "--services", "--filter", "status=running")
	return err == nil && slices.Contains(strings.Fields(string(output)), s.name)
}

// WriteLog writes all that the server has printed.
func (s *Service) WriteLog(ctx context.Context, to io.Writer) error {
	output, err := s.all.run(ctx, "logs", "--no-color", s.name)
	if err == nil {
		_, err = to.Write(output)
	}
	return err
}

// LastLines returns the last lines of that, for an error message.
func (s *Service) LastLines(ctx context.Context) string {
	output, err := s.all.run(ctx, "logs", "--no-color", "--tail", "40", s.name)
	if err != nil {
		return err.Error()
	}
	return lifecycle.Tail(output)
}
