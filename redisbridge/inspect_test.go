package redisbridge_test

import (
	"testing"

	"github.com/delaybridge/delaybridge/redisbridge"
)

// A look at a prefix that nobody uses leaves no layout behind, which would bind whoever
// comes first to the number of shards.
func TestInspectWritesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	i, err := redisbridge.Inspect(t.Context(), b.client, b.topology)
	if err != nil {
		t.Fatal(err)
	}
	if i.Version != "" || i.Shards != "" || len(i.Bridges) != 0 || len(i.Leases) != b.topology.Shards() || i.Now.IsZero() {
		t.Errorf("got %+v", i)
	}
	if n, err := b.client.Exists(t.Context(), "{"+b.Prefix+"}:layout").Result(); err != nil || n != 0 {
		t.Errorf("the layout is there: %d, %v", n, err)
	}
}
