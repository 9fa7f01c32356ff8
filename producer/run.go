package producer

import (
	"context"
	"errors"
	"sync"

	"github.com/delaybridge/delaybridge/internal/broker"
)

var (
	errRanBefore = errors.New("producer: Run was called before: make another Producer")
	errStopped   = errors.New("the producer has stopped")
	// errNotRunning: only what is parked needs no connection.
	errNotRunning = errors.New("the producer is not running: call Run, in a goroutine of its own")
)

// workers is how many goroutines publish.
const workers = 2

// Run keeps the connection to the broker until ctx ends. Then it refuses new
// messages and those that still wait for a connection, waits for the answers to
// the others, at most for Config.DrainTimeout, and returns nil. It returns an error only where trying
// again cannot help (ErrConfiguration), or has not helped for
// Config.GiveUpAfter (ErrUnreachable). A missing exchange or permission does not
// end it: Publish says so, and works once a person has mended it.
func (p *Producer) Run(ctx context.Context) error {
	if !p.began.CompareAndSwap(false, true) {
		return errRanBefore
	}
	close(p.running)
	// The connection outlives ctx, for the answers to what was published.
	connected, disconnect := context.WithCancel(context.WithoutCancel(ctx))
	defer disconnect()
	lost := make(chan error, 1)
	go func() { lost <- p.conn.Run(connected) }()

	var publishing sync.WaitGroup
	pool := broker.NewPool(p.conn, p.config.Channels)
	for range workers {
		publishing.Go(func() { p.work(pool) })
	}

	var err error
	select {
	case err = <-lost:
		p.gate.shut(err)
	case <-ctx.Done():
		p.drain(ctx)
		disconnect()
		err = <-lost
	}
	close(p.stopped)
	publishing.Wait()
	pool.Close()
	return err
}

// drain refuses new messages and waits for those under way.
func (p *Producer) drain(ctx context.Context) {
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.config.DrainTimeout)
	defer cancel()
	select {
	case <-p.gate.shut(errStopped):
	case <-patience.Done():
	}
}

// gate counts the messages under way, until it is shut.
type gate struct {
	open  context.Context // ends, with a cause, when the gate is shut
	close context.CancelCauseFunc
	empty chan struct{} // closed once it is shut and no call is inside

	mu     sync.Mutex
	inside int
}

func newGate() *gate {
	open, shut := context.WithCancelCause(context.Background())
	return &gate{open: open, close: shut, empty: make(chan struct{})}
}

func (g *gate) enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open.Err() != nil {
		return context.Cause(g.open)
	}
	g.inside++
	return nil
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.check()
}

// shut makes enter return refusal from now on.
func (g *gate) shut(refusal error) (empty <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.close(refusal)
	g.check()
	return g.empty
}

func (g *gate) check() {
	if g.open.Err() != nil && g.inside == 0 {
		close(g.empty)
	}
}
