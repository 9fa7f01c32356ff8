package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/delaybridge/delaybridge/internal/servers/private"
	"github.com/delaybridge/delaybridge/internal/servers/rabbitmq"
)

// missingPackages names the Debian packages whose programs are not here.
func missingPackages() []string {
	missing := rabbitmq.MissingPackages()
	if _, err := exec.LookPath("redis-server"); err != nil {
		missing = append(missing, "redis-server")
	}
	return missing
}

// ensurePackages installs RabbitMQ and Redis where they are missing.
func ensurePackages(ctx context.Context) error {
	return private.Ensure(ctx, missingPackages,
		fmt.Sprintf(", or have a container engine with the images %s and %s at hand", DefaultRabbitMQImage, DefaultRedisImage))
}

// EnsureClients installs what is missing of the programs that tests run beside the
// servers. It takes the file or the program that each Debian package is known by.
func EnsureClients(ctx context.Context, byPackage map[string]string) error {
	return private.Ensure(ctx, func() []string {
		var missing []string
		for name, file := range byPackage {
			if _, err := os.Stat(file); err == nil {
				continue
			}
			if _, err := exec.LookPath(file); err != nil {
				missing = append(missing, name)
			}
		}
		slices.Sort(missing)
		return missing
	}, "")
}

// ensureOtherClock installs what is missing for [Config.RedisAhead].
func ensureOtherClock(ctx context.Context) error {
	return private.Ensure(ctx, func() []string {
		var missing []string
		for name, file := range map[string]string{
			"libfaketime": "faketime/libfaketime.so.1", "libtcmalloc-minimal4": "libtcmalloc_minimal.so.4",
		} {
			if found, _ := filepath.Glob("/usr/lib/*/" + file); len(found) == 0 { // by architecture
				missing = append(missing, name)
			}
		}
		slices.Sort(missing)
		return missing
	}, "")
}
