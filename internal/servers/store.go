package servers

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
	layout    Layout
	nodes     []*Redis // the first is a primary at the start
	sentinels []*Redis
	url       string
}

// StartStore starts Redis in the layout that config says, and returns when it
// takes commands. The caller owes it a Stop.
func StartStore(ctx context.Context, config Config) (*Store, error) {
	config, err := config.settle(ctx)
	if err != nil {
		return nil, err
	}
	return config.startStore(ctx)
}

// startStore starts Redis as a settled Config says.
func (c Config) startStore(ctx context.Context) (*Store, error) {
	if c.RedisLayout == Single {
		r, err := c.startRedis(ctx)
		if err != nil {
			return nil, err
		}
		return newSingleStore(r), nil
	}
	s := &Store{layout: c.RedisLayout}
	start := s.startCluster
	if c.RedisLayout == Watched {
		start = s.startWatched
	}
	if err := start(ctx, c); err != nil {
		// ctx may be what ended the start; cleaning up must work all the same.
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

func newSingleStore(r *Redis) *Store {
	return &Store{layout: Single, nodes: []*Redis{r}, url: r.URL()}
}

// Layout says how the servers stand together.
func (s *Store) Layout() Layout { return s.layout }

// URL is what a client needs to know: of a cluster, all nodes; of a watched
// pair, the Sentinels. It stays the same for the life of the store.
func (s *Store) URL() string { return s.url }

// Nodes are the servers that hold data. Stopping them is [Store.Stop]'s task.
func (s *Store) Nodes() []*Redis { return slices.Clone(s.nodes) }

// Primaries returns the servers that take writes now. Sentinels hear of a
// promotion one after the other; while they disagree, that is the error.
func (s *Store) Primaries(ctx context.Context) ([]*Redis, error) {
	if s.layout != Watched {
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
			return []*Redis{r}, nil
		}
	}
	return nil, fmt.Errorf("the primary is %s, say the Sentinels, and that is none of the nodes", at)
}

// Kill ends all nodes at once, as kill -9 would.
func (s *Store) Kill(ctx context.Context) error {
	return s.each(s.nodes, func(r *Redis) error { return r.Kill(ctx) })
}

// Restart starts all nodes again with the data they had, and returns when the
// store takes commands. Of a watched pair the primary comes first, or Sentinel
// would promote the replica, which may lack what was written last.
func (s *Store) Restart(ctx context.Context) error {
	switch s.layout {
	case Clustered:
		if err := s.each(s.nodes, func(r *Redis) error { return r.Restart(ctx) }); err != nil {
			return err
		}
		return s.awaitCluster(ctx)
	case Watched:
		return s.restartWatched(ctx)
	case Single:
	}
	return s.nodes[0].Restart(ctx)
}

// Stop ends all servers and removes their data.
func (s *Store) Stop(ctx context.Context) error {
	return s.each(slices.Concat(s.sentinels, s.nodes), func(r *Redis) error { return r.Stop(ctx) })
}

// each does something with several servers at once.
func (s *Store) each(servers []*Redis, do func(*Redis) error) error {
	errs := make([]error, len(servers))
	var all sync.WaitGroup
	for i, r := range servers {
		all.Go(func() { errs[i] = do(r) })
	}
	all.Wait()
	return errors.Join(errs...)
}
