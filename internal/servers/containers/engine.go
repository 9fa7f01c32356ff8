package containers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"

	"github.com/moby/moby/client"
	tclog "github.com/testcontainers/testcontainers-go/log"

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

// An Image is what a container is made of.
type Image struct {
	Name     string
	Variable string // of the environment, where another one is named
}

// Missing says what keeps this machine from running containers of the images; nil
// is nothing.
func Missing(ctx context.Context, images ...Image) error {
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
	for _, image := range images {
		if _, err := engine.ImageInspect(ctx, image.Name); err != nil {
			errs = append(errs, fmt.Errorf(
				"%w: run `docker pull %s`, or set %s to an image that is at hand", err, image.Name, image.Variable))
		}
	}
	return errors.Join(errs...)
}
