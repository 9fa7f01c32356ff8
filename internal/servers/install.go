package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"

	"github.com/delaybridge/delaybridge/internal/servers/private"
	"github.com/delaybridge/delaybridge/internal/servers/rabbitmq"
	"github.com/delaybridge/delaybridge/internal/servers/redisserver"
)

// ensurePackages installs RabbitMQ and Redis where they are missing.
func ensurePackages(ctx context.Context) error {
	return private.Ensure(ctx, func() []string { return append(rabbitmq.MissingPackages(), redisserver.MissingPackages()...) },
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
