package redisserver

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// MissingClockPackages names the Debian packages that [Config.Ahead] takes, and that
// are not here.
func MissingClockPackages() []string {
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
}

// otherClock returns the environment in which a program's clock is so far ahead of the
// machine's. The allocator that Redis brings reads the clock before libfaketime can answer;
// another one takes its place.
func otherClock(ahead time.Duration) map[string]string {
	if ahead == 0 {
		return nil
	}
	return map[string]string{
		"LD_PRELOAD":                   "libtcmalloc_minimal.so.4 /usr/$LIB/faketime/libfaketime.so.1",
		"FAKETIME":                     fmt.Sprintf("%+fs", ahead.Seconds()),
		"FAKETIME_DONT_FAKE_MONOTONIC": "1",
	}
}

// clockTolerance is by how much more a clock may be behind than was asked for. libfaketime
// reads the machine's clock twice while a program starts, and is behind by the time between.
const clockTolerance = 100 * time.Millisecond

// Ahead returns the bounds of how far the server's clock is ahead of this machine's; they are
// negative where it is behind.
func (r *Node) Ahead(ctx context.Context) (least, most time.Duration, err error) {
	err = r.command(func(c *redis.Client) error {
		began := time.Now()
		now, err := c.Time(ctx).Result()
		// Redis was asked at one of the two instants, or between them.
		least, most = time.Until(now), now.Sub(began)
		return err
	})
	return least, most, err
}

// checkClock returns an error where the clock does not go as it should.
func (r *Node) checkClock(ctx context.Context, ahead time.Duration) error {
	least, most, err := r.Ahead(ctx)
	if err == nil && (least > ahead || most < ahead-clockTolerance) {
		err = fmt.Errorf("it is from %v to %v ahead rather than %v", least, most, ahead)
	}
	return err
}
