package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"

	"github.com/delaybridge/delaybridge/internal/servers/config"
	"github.com/delaybridge/delaybridge/internal/servers/lifecycle"
)

// prepareTestcontainers makes settings that testcontainers keeps for the whole
// process and reads once.
var prepareTestcontainers = sync.OnceFunc(func() {
	for name, value := range map[string]string{
		// Ports are published here; the library would ask the machine's gateway.
		"TESTCONTAINERS_HOST_OVERRIDE": "127.0.0.1",
		// The watchdog does what Ryuk does, and needs no image for it.
		"TESTCONTAINERS_RYUK_DISABLED": "true",
	} {
		if _, set := os.LookupEnv(name); !set {
			_ = os.Setenv(name, value) // fails for malformed names only
		}
	}
	tclog.SetDefault(tclog.NewNoopLogger())
})

// missingForContainers says what keeps this machine from running containers.
func (c Config) missingForContainers(ctx context.Context) error {
	if _, err := exec.LookPath("docker"); err != nil {
		return fmt.Errorf("no container engine: %w", err)
	}
	engine, err := client.New(client.FromEnv)
	if err != nil {
		return fmt.Errorf("no container engine: %w", err)
	}
	defer func() { _ = engine.Close() }()
	ctx, cancel := context.WithTimeout(ctx, lifecycle.ProbeTimeout)
	defer cancel()
	if _, err := engine.Ping(ctx, client.PingOptions{}); err != nil {
		return fmt.Errorf("no container engine answers: %w", err)
	}
	var errs []error
	for _, image := range []struct{ name, variable string }{
		{c.RabbitMQImage, RabbitMQImageVariable},
		{c.RedisImage, RedisImageVariable},
	} {
		if _, err := engine.ImageInspect(ctx, image.name); err != nil {
			errs = append(errs, fmt.Errorf(
				"%w: run `docker pull %s`, or set %s to an image that is at hand", err, image.name, image.variable))
		}
	}
	return errors.Join(errs...)
}

// box is a server in a container.
type box struct {
	name  string
	image string
	ports map[string]lifecycle.Port // by the port inside, such as "5672/tcp"
	files map[string]string         // contents by the path inside
	// secrets are files, too, which the image hands to the server's user.
	secrets map[string]string
	// rewritable are files, too, which the server itself may change.
	rewritable map[string]string
	env        map[string]string
	args       []string
	engine     *client.Client
	dog        *lifecycle.Watchdog
	made       bool
	// atHome has the container use this machine's network as it is.
	atHome bool
	// bridges are the networks it is in, besides the engine's default one when
	// it entered them later.
	bridges []*bridge
}

// ship adds the shipped file of that name, and what the container needs besides.
func (b *box) ship(path, name, more string) error {
	content, err := config.Read(name)
	if err != nil {
		return err
	}
	if b.files == nil {
		b.files = map[string]string{}
	}
	b.files[path] = content + more
	return nil
}

// newBox reserves a port for each port inside and prepares the clean-up.
func newBox(b box, inside ...string) (*box, error) {
	prepareTestcontainers()
	ports, err := lifecycle.ReservePorts(len(inside))
	if err != nil {
		return nil, err
	}
	b.ports = map[string]lifecycle.Port{}
	for i, p := range inside {
		b.ports[p] = ports[i]
	}
	b.name = fmt.Sprintf("delaybridge-%s-%d", b.name, ports[0].Number)
	if b.engine, err = client.New(client.FromEnv); err != nil {
		return nil, errors.Join(err, lifecycle.ReleasePorts(ports))
	}
	if b.dog, err = lifecycle.Watch("docker", "rm", "--force", "--volumes", b.name); err != nil {
		return nil, errors.Join(err, b.engine.Close(), lifecycle.ReleasePorts(ports))
	}
	return &b, nil
}

func (b *box) Start(ctx context.Context) error {
	if b.made {
		_, err := b.engine.ContainerStart(ctx, b.name, client.ContainerStartOptions{})
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
	add(b.files, 0o644)
	add(b.secrets, 0o600)
	add(b.rewritable, 0o666)
	b.made = true
	customizers := []testcontainers.ContainerCustomizer{
		testcontainers.WithName(b.name),
		testcontainers.WithCmd(b.args...),
		testcontainers.WithEnv(b.env),
		testcontainers.WithFiles(files...),
	}
	_, err := testcontainers.Run(ctx, b.image, append(customizers, b.attach()...)...)
	return err
}

// attach says by which addresses the container is known.
func (b *box) attach() []testcontainers.ContainerCustomizer {
	if b.atHome {
		return []testcontainers.ContainerCustomizer{
			testcontainers.WithHostConfigModifier(func(c *container.HostConfig) { c.NetworkMode = network.NetworkHost }),
		}
	}
	here := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	bindings := network.PortMap{}
	inside := make([]string, 0, len(b.ports))
	for p, outside := range b.ports {
		inside = append(inside, p)
		bindings[network.MustParsePort(p)] = []network.PortBinding{{
			HostIP: here, HostPort: strconv.Itoa(outside.Number),
		}}
	}
	return []testcontainers.ContainerCustomizer{
		testcontainers.WithExposedPorts(inside...),
		// RabbitMQ's data belong to the node of this name.
		testcontainers.WithConfigModifier(func(c *container.Config) { c.Hostname = b.name }),
		testcontainers.WithHostConfigModifier(func(c *container.HostConfig) {
			c.PortBindings = bindings
			// The name of a member that is down is unknown at once: nobody else is asked.
			c.DNS = []netip.Addr{here}
			if len(b.bridges) > 0 {
				c.NetworkMode = container.NetworkMode(b.bridges[0].name)
			}
		}),
	}
}

func (b *box) Halt(ctx context.Context) error {
	// A frozen process cannot shut down; that it was not frozen is no failure.
	_ = b.Resume(ctx)
	grace := int(lifecycle.HaltGrace.Seconds())
	_, err := b.engine.ContainerStop(ctx, b.name, client.ContainerStopOptions{Timeout: &grace})
	return err
}

func (b *box) Kill(ctx context.Context) error {
	if !b.Running(ctx) {
		return nil
	}
	if _, err := b.engine.ContainerKill(ctx, b.name, client.ContainerKillOptions{Signal: "KILL"}); err != nil {
		return err
	}
	// The engine has only sent the signal. A start before the end would change nothing.
	return lifecycle.Await(ctx, func(ctx context.Context) error {
		if b.Running(ctx) {
			return errors.New("it has not ended yet")
		}
		return nil
	})
}

func (b *box) Pause(ctx context.Context) error {
	// On a busy machine the engine does not always manage to freeze all threads in
	// its own time.
	return lifecycle.Await(ctx, func(ctx context.Context) error {
		_, err := b.engine.ContainerPause(ctx, b.name, client.ContainerPauseOptions{})
		return err
	})
}

func (b *box) Resume(ctx context.Context) error {
	_, err := b.engine.ContainerUnpause(ctx, b.name, client.ContainerUnpauseOptions{})
	return err
}

func (b *box) Discard(context.Context) error {
	errs := []error{b.dog.Release(), b.engine.Close()}
	for _, n := range b.bridges {
		errs = append(errs, n.leave())
	}
	for _, p := range b.ports {
		errs = append(errs, p.Release())
	}
	return errors.Join(errs...)
}

func (b *box) Running(ctx context.Context) bool {
	found, err := b.engine.ContainerInspect(ctx, b.name, client.ContainerInspectOptions{})
	return err == nil && found.Container.State.Running
}

func (b *box) WriteLog(ctx context.Context, to io.Writer) error {
	cmd := exec.CommandContext(ctx, "docker", "logs", b.name)
	cmd.Stdout, cmd.Stderr = to, to
	return cmd.Run()
}

func (b *box) LastLines(ctx context.Context) string {
	output, err := exec.CommandContext(ctx, "docker", "logs", "--tail", "40", b.name).CombinedOutput()
	if err != nil {
		return errors.Join(err, errors.New(string(output))).Error()
	}
	return lifecycle.Tail(output)
}
