package redisserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// A Store is Redis in one of its layouts, seen as one: what is done to it is
// done to all servers that hold data. Sentinels go on meanwhile.
type Store struct {
	nodes     []*Node // the first is a primary at the start
	sentinels []*Node // none but of a watched pair
	url       string
}

// Alone makes a store of one server.
func Alone(r *Node) *Store { return &Store{nodes: []*Node{r}, url: r.URL()} }

// StartCluster starts a Redis Cluster of three masters, and returns when it takes
// commands. The caller owes it a Stop.
func StartCluster(ctx context.Context, config Config) (*Store, error) {
	return start(ctx, config, (*Store).startCluster)
}

// StartWatched starts a primary and its replica, which three Sentinels watch, and
// returns when these know each other. The caller owes it a Stop.
func StartWatched(ctx context.Context, config Config) (*Store, error) {
	return start(ctx, config, (*Store).startWatched)
}

// start makes a store in one of the layouts: one that fails leaves nothing behind.
func start(ctx context.Context, config Config, in func(*Store, context.Context, Config) error) (*Store, error) {
	var s Store
	if err := in(&s, ctx, config); err != nil {
		// ctx may be what ended the start; cleaning up must work all the same.
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return &s, nil
}

// watched says whether Sentinels decide which of the nodes takes writes.
func (s *Store) watched() bool { return len(s.sentinels) > 0 }

// URL is what a client needs to know: of a cluster, all nodes; of a watched
// pair, the Sentinels. It stays the same for the life of the store.
func (s *Store) URL() string { return s.url }

// Nodes are the servers that hold data. Stopping them is [Store.Stop]'s task.
func (s *Store) Nodes() []*Node { return slices.Clone(s.nodes) }

// Primaries returns the servers that take writes now. Sentinels hear of a
// promotion one after the other; while they disagree, that is the error.
func (s *Store) Primaries(ctx context.Context) ([]*Node, error) {
	if !s.watched() {
		return s.Nodes(), nil
	}
	var at string
	for _, r := range s.sentinels {
		said, err := r.primary(ctx)
		if err != nil {
			return nil, err
		}
		if at != "" && said != at {
			return nil, fmt.Errorf("the primary is %s, say some Sentinels, and %s, others", at, said)
		}
		at = said
	}
	for _, r := range s.nodes {
		if r.address() == at {
			return []*Node{r}, nil
		}
	}
	return nil, fmt.Errorf("the primary is %s, say the Sentinels, and that is none of the nodes", at)
}

// Kill ends all nodes at once, as kill -9 would.
func (s *Store) Kill(ctx context.Context) error {
	return s.each(s.nodes, func(r *Node) error { return r.Kill(ctx) })
}

// Restart starts all nodes again with the data they had, and returns when the
// store takes commands. Of a watched pair the primary comes first, or Sentinel
// would promote the replica, which may lack what was written last.
func (s *Store) Restart(ctx context.Context) error {
	switch {
	case s.watched():
		return s.restartWatched(ctx)
	case len(s.nodes) == 1:
		return s.nodes[0].Restart(ctx)
	}
	if err := s.each(s.nodes, func(r *Node) error { return r.Restart(ctx) }); err != nil {
		return err
	}
	return s.awaitCluster(ctx)
}

// Stop ends all servers and removes their data.
func (s *Store) Stop(ctx context.Context) error {
	return s.each(slices.Concat(s.sentinels, s.nodes), func(r *Node) error { return r.Stop(ctx) })
}

// each does something with several servers at once.
func (s *Store) each(servers []*Node, do func(*Node) error) error {
	errs := make([]error, len(servers))
	var all sync.WaitGroup
	for i, r := range servers {
		all.Go(func() { errs[i] = do(r) })
	}
	all.Wait()
	return errors.Join(errs...)
}
