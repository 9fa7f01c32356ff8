package topology

import (
	"strings"
	"time"
)

// TierOf returns the TTL of the tier that a queue is by its name, of this or another
// configuration with the same prefix.
func (t *Topology) TierOf(queue string) (ttl time.Duration, ok bool) {
	name, ok := strings.CutPrefix(queue, t.name("tier", ""))
	if !ok {
		return 0, false
	}
	ttl, err := time.ParseDuration(strings.TrimSuffix(name, "."+ofEntries))
	return ttl, err == nil && ttl > 0
}
