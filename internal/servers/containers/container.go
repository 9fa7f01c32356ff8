package containers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	mobynetwork "github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"

	"github.com/delaybridge/delaybridge/internal/servers/config"
	"github.com/delaybridge/delaybridge/internal/servers/lifecycle"
)

// A Container is a server in a container. What is exported but Name and Ports is for
// the first Start.
type Container struct {
	Name  string // New adds a number; also the host's name inside
	Image string
	Ports map[string]lifecycle.Port // by the port inside, such as "5672/tcp"
	// Secrets are contents by the path inside, of files that the image hands to the
	// server's user.
	Secrets map[string]string
	// Rewritable are files, too, which the server itself may change.
	Rewritable map[string]string
	Env        map[string]string
	Args       []string
	// AtHome has the container use this machine's network as it is.
	AtHome bool

	files  map[string]string // shipped ones, by the path inside
	engine *client.Client
	dog    *lifecycle.Watchdog
	made   bool
	// networks it is in, besides the engine's default one when it entered them later.
	networks []*network
}

// Ship adds the shipped file of that name, and what the container needs besides.
func (c *Container) Ship(path, name, more string) error {
	content, err := config.Read(name)
	if err != nil {
		return err
	}
	if c.files == nil {
		c.files = map[string]string{}
	}
	c.files[path] = content + more
	return nil
}

// New reserves a port for each port inside and prepares the clean-up.
func New(c Container, inside ...string) (*Container, error) {
	prepareTestcontainers()
	ports, err := lifecycle.ReservePorts(len(inside))
	if err != nil {
		return nil, err
	}
	c.Ports = map[string]lifecycle.Port{}
	for i, p := range inside {
		c.Ports[p] = ports[i]
	}
	c.Name = fmt.Sprintf("delaybridge-%s-%d", c.Name, ports[0].Number)
	if c.engine, err = client.New(client.FromEnv); err != nil {
		return nil, errors.Join(err, lifecycle.ReleasePorts(ports))
	}
	if c.dog, err = lifecycle.Watch("docker", "rm", "--force", "--volumes", c.Name); err != nil {
		return nil, errors.Join(err, c.engine.Close(), lifecycle.ReleasePorts(ports))
	}
	return &c, nil
}

// Start makes the container, or starts it on the data it had before.
func (c *Container) Start(ctx context.Context) error {
	if c.made {
		_, err := c.engine.ContainerStart(ctx, c.Name, client.ContainerStartOptions{})
		return err
	}
	var files []testcontainers.ContainerFile
	add := func(contents map[string]string, mode int64) {
		for inside, content := range contents {
			files = append(files, testcontainers.ContainerFile{
				Reader: strings.NewReader(content), ContainerFilePath: inside, FileMode: mode,
			})
		}
	}
	add(c.files, 0o644)
	add(c.Secrets, 0o600)
	add(c.Rewritable, 0o666)
	c.made = true
	customizers := []testcontainers.ContainerCustomizer{
		testcontainers.WithName(c.Name),
		testcontainers.WithCmd(c.Args...),
		testcontainers.WithEnv(c.Env),
		testcontainers.WithFiles(files...),
	}
	_, err := testcontainers.Run(ctx, c.Image, append(customizers, c.attach()...)...)
	return err
}

// attach says by which addresses the container is known.
func (c *Container) attach() []testcontainers.ContainerCustomizer {
	if c.AtHome {
		return []testcontainers.ContainerCustomizer{
			testcontainers.WithHostConfigModifier(func(host *container.HostConfig) { host.NetworkMode = mobynetwork.NetworkHost }),
		}
	}
	here := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	bindings := mobynetwork.PortMap{}
	inside := make([]string, 0, len(c.Ports))
	for p, outside := range c.Ports {
		inside = append(inside, p)
		bindings[mobynetwork.MustParsePort(p)] = []mobynetwork.PortBinding{{
			HostIP: here, HostPort: strconv.Itoa(outside.Number),
		}}
	}
	return []testcontainers.ContainerCustomizer{
		testcontainers.WithExposedPorts(inside...),
		// RabbitMQ's data belong to the node of this name.
		testcontainers.WithConfigModifier(func(made *container.Config) { made.Hostname = c.Name }),
		testcontainers.WithHostConfigModifier(func(host *container.HostConfig) {
			host.PortBindings = bindings
			// The name of a member that is down is unknown at once: no other server is asked.
			host.DNS = []netip.Addr{here}
			if len(c.networks) > 0 {
				host.NetworkMode = container.NetworkMode(c.networks[0].name)
			}
		}),
	}
}

// Halt asks the server to end, and kills it when it has not after [lifecycle.HaltGrace].
func (c *Container) Halt(ctx context.Context) error {
	// A frozen process cannot shut down; that it was not frozen is no failure.
	_ = c.Resume(ctx)
	grace := int(lifecycle.HaltGrace.Seconds())
	_, err := c.engine.ContainerStop(ctx, c.Name, client.ContainerStopOptions{Timeout: &grace})
	return err
}

// Kill ends the server at once, and returns when it has ended.
func (c *Container) Kill(ctx context.Context) error {
	if !c.Running(ctx) {
		return nil
	}
	if _, err := c.engine.ContainerKill(ctx, c.Name, client.ContainerKillOptions{Signal: "KILL"}); err != nil {
		return err
	}
	// The engine has only sent the signal. A start before the end would change nothing.
	return lifecycle.Await(ctx, func(ctx context.Context) error {
		if c.Running(ctx) {
			return errors.New("it has not ended yet")
		}
		return nil
	})
}

// Pause freezes the container.
func (c *Container) Pause(ctx context.Context) error {
	// On a busy machine the engine does not always manage to freeze all threads in
	// its own time.
	return lifecycle.Await(ctx, func(ctx context.Context) error {
		_, err := c.engine.ContainerPause(ctx, c.Name, client.ContainerPauseOptions{})
		return err
	})
}

// Resume lets a frozen container go on.
func (c *Container) Resume(ctx context.Context) error {
	_, err := c.engine.ContainerUnpause(ctx, c.Name, client.ContainerUnpauseOptions{})
	return err
}

// Discard removes the container and its data, leaves its networks and releases its ports.
func (c *Container) Discard(context.Context) error {
	errs := []error{c.dog.Release(), c.engine.Close()}
	for _, n := range c.networks {
		errs = append(errs, n.leave())
	}
	for _, p := range c.Ports {
		errs = append(errs, p.Release())
	}
	return errors.Join(errs...)
}

// Running says whether the container runs, frozen or not.
func (c *Container) Running(ctx context.Context) bool {
	found, err := c.engine.ContainerInspect(ctx, c.Name, client.ContainerInspectOptions{})
	return err == nil && found.Container.State.Running
}

// WriteLog writes all that the server has printed.
func (c *Container) WriteLog(ctx context.Context, to io.Writer) error {
	cmd := exec.CommandContext(ctx, "docker", "logs", c.Name)
	cmd.Stdout, cmd.Stderr = to, to
	return cmd.Run()
}

// LastLines returns the last lines of that, for an error message.
func (c *Container) LastLines(ctx context.Context) string {
	output, err := exec.CommandContext(ctx, "docker", "logs", "--tail", "40", c.Name).CombinedOutput()
	if err != nil {
		return errors.Join(err, errors.New(string(output))).Error()
	}
	return lifecycle.Tail(output)
}
