package topology

import (
	"strconv"
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

// TTLName writes a TTL the way the management UI is to show it: 1s, 90s as
// 1m30s, 1h, and 1500ms where whole seconds do not do. Two different TTLs of
// whole milliseconds never get the same name.
func TTLName(ttl time.Duration) string {
	if ttl%time.Second != 0 {
		return strconv.FormatInt(ttl.Milliseconds(), 10) + "ms"
	}
	var b strings.Builder
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if n := ttl / unit.size; n > 0 {
			b.WriteString(strconv.FormatInt(int64(n), 10) + unit.name)
			ttl -= n * unit.size
		}
	}
	return b.String()
}
