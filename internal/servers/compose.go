package servers

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

// composeFile is the file at the root of the checkout that describes the containers.
const composeFile = "compose.yaml"

// A composition is the running containers of compose.yaml.
type composition struct {
	command []string         // the compose command with all that is said to it each time
	ports   []lifecycle.Port // AMQP, management, Redis
	dog     *lifecycle.Watchdog
}

// StartComposed is [Start] for people to look at: containers are those of
// compose.yaml, which is looked for in the working directory and above, and has
// one server of each kind. Private nodes are the same in both.
func StartComposed(ctx context.Context, config Config) (*Pair, error) {
	config, err := config.settle(ctx)
	if err != nil {
		return nil, err
	}
	if config.Choice != Containers {
		return Start(ctx, config)
	}
	all, err := compose(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", composeFile, err)
	}
	rabbit := newRabbitMQ(&service{all, "rabbitmq"}, "rabbit@rabbitmq", all.ports[0].Number, all.ports[1].Number)
	store := newRedis(&service{all, "redis"}, all.ports[2].Number)
	pair := &Pair{
		RabbitMQ: rabbit, stopRabbitMQ: rabbit.Stop, Redis: newSingleStore(store), Choice: Containers, composed: all,
	}
	// One after the other: both would create the network that they share.
	for _, start := range []func(context.Context) error{rabbit.Start, store.Start} {
		if err := start(ctx); err != nil {
			return nil, errors.Join(err, pair.Stop(context.WithoutCancel(ctx)))
		}
	}
	return pair, nil
}

// compose prepares the containers and what removes them again.
func compose(ctx context.Context, config Config) (*composition, error) {
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
	ports, err := lifecycle.ReservePorts(3)
	if err != nil {
		return nil, err
	}
	all := &composition{ports: ports, command: append([]string{
		"env",
		RabbitMQImageVariable + "=" + config.RabbitMQImage,
		RedisImageVariable + "=" + config.RedisImage,
		"DELAYBRIDGE_AMQP_PORT=" + strconv.Itoa(ports[0].Number),
		"DELAYBRIDGE_MANAGEMENT_PORT=" + strconv.Itoa(ports[1].Number),
		"DELAYBRIDGE_REDIS_PORT=" + strconv.Itoa(ports[2].Number),
	}, append(program, "-f", file, "-p", "delaybridge-"+strconv.Itoa(ports[0].Number))...)}
	if all.dog, err = lifecycle.Watch(append(all.command, "down", "--volumes", "--timeout", "1")...); err != nil {
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
		file := filepath.Join(dir, composeFile)
		if _, err := os.Stat(file); err == nil {
			return file, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("it is not in this folder or above: run this inside the checkout")
		}
	}
}

// run runs one compose command and returns its output.
func (c *composition) run(ctx context.Context, args ...string) ([]byte, error) {
	full := append(append([]string(nil), c.command[1:]...), args...)
	output, err := exec.CommandContext(ctx, c.command[0], full...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("compose %s: %w: %s", args[0], err, lifecycle.Tail(output))
	}
	return output, nil
}

// discard removes the containers, their network and their data.
func (c *composition) discard() error {
	return errors.Join(c.dog.Release(), lifecycle.ReleasePorts(c.ports))
}

// A service is one server of a composition.
type service struct {
	all  *composition
	name string
}

func (s *service) do(ctx context.Context, args ...string) error {
	_, err := s.all.run(ctx, append(args, s.name)...)
	return err
}

func (s *service) Start(ctx context.Context) error { return s.do(ctx, "up", "-d") }

func (s *service) Halt(ctx context.Context) error {
	// A frozen process cannot shut down; that it was not frozen is no failure.
	_ = s.Resume(ctx)
	return s.do(ctx, "stop", "--timeout", strconv.Itoa(int(lifecycle.HaltGrace.Seconds())))
}

func (s *service) Kill(ctx context.Context) error { return s.do(ctx, "kill") }

func (s *service) Pause(ctx context.Context) error { return s.do(ctx, "pause") }

func (s *service) Resume(ctx context.Context) error { return s.do(ctx, "unpause") }

func (s *service) Discard(ctx context.Context) error { return s.do(ctx, "kill") }

func (s *service) Running(ctx context.Context) bool {
	// The one form of the question that compose 1.29 and 2 answer alike.
	output, err := s.all.run(ctx, "ps", "--services", "--filter", "status=running")
	return err == nil && slices.Contains(strings.Fields(string(output)), s.name)
}

func (s *service) WriteLog(ctx context.Context, to io.Writer) error {
	output, err := s.all.run(ctx, "logs", "--no-color", s.name)
	if err == nil {
		_, err = to.Write(output)
	}
	return err
}

func (s *service) LastLines(ctx context.Context) string {
	output, err := s.all.run(ctx, "logs", "--no-color", "--tail", "40", s.name)
	if err != nil {
		return err.Error()
	}
	return lifecycle.Tail(output)
}
