package store_test

import (
	"testing"

	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
)

// A node of a cluster without a name gives its own, which differs from node to node.
func TestOwnersAreComparedByWhatIsKnown(t *testing.T) {
	t.Parallel()
	owner := func(cluster, vhost string) store.Owner {
		return store.Owner{Cluster: cluster, VHost: vhost}
	}
	for _, tc := range []struct {
		a, b store.Owner
		same bool
	}{
		{owner("shop", "/"), owner("shop", "/"), true},
		{owner("shop", "/"), owner("shop", "b"), false},
		{owner("shop", "/"), owner("lab", "/"), false},
		{owner("shop", "/"), owner("", "/"), true},
		{owner("shop", "/"), owner("", "b"), false},
		{owner("shop", "/"), owner("rabbit@one", "/"), true},
		{owner("rabbit@one", "/"), owner("rabbit@two", "/"), true},
		{owner("rabbit@one", "/"), owner("rabbit@one", "b"), false},
		{owner("shop", "/"), store.Owner{}, true},
	} {
		if tc.a.Is(tc.b) != tc.same || tc.b.Is(tc.a) != tc.same {
			t.Errorf("%v and %v: want the same %v", tc.a, tc.b, tc.same)
		}
	}
}
