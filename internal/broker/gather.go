package broker

import (
	"net"
	"sync"
)

// gatherMost bounds what waits to be written, as a socket's buffer does.
const gatherMost = 256 << 10

// gathering writes what several calls of Write hand it in one go, while the
// network or the broker is busy with what came before. The library flushes each
// message by itself; a system call for each, here and at the broker, is a third
// of what publishing costs.
//
// A call returns before the network has the bytes, as one to a socket does. What
// goes wrong with them is told by the next call, and ends the connection.
type gathering struct {
	net.Conn

	mu      sync.Mutex
	changed *sync.Cond // pending, failed
	pending []byte
	failed  error
}

// gather starts a goroutine that ends with Close, or when writing fails.
func gather(conn net.Conn) *gathering {
	g := &gathering{Conn: conn}
	g.changed = sync.NewCond(&g.mu)
	go g.flush()
	return g
}

func (g *gathering) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.failed == nil && len(g.pending) >= gatherMost {
		g.changed.Wait()
	}
	if g.failed != nil {
		return 0, g.failed
	}
	g.pending = append(g.pending, b...)
	g.changed.Broadcast()
	return len(b), nil
}

// Close drops what is not written yet: the library waits for the broker's answer
// to its last word before.
func (g *gathering) Close() error {
	err := g.Conn.Close()
	g.fail(net.ErrClosed)
	return err
}

func (g *gathering) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failed == nil {
		g.failed = err
	}
	g.changed.Broadcast()
}

func (g *gathering) flush() {
	var writing []byte
	for {
		g.mu.Lock()
		for g.failed == nil && len(g.pending) == 0 {
			g.changed.Wait()
		}
		if g.failed != nil {
			g.mu.Unlock()
			return
		}
		if cap(writing) > 4*gatherMost {
			writing = nil // one message was huge
		}
		writing, g.pending = g.pending, writing[:0]
		g.changed.Broadcast()
		g.mu.Unlock()
		if _, err := g.Conn.Write(writing); err != nil {
			g.fail(err)
			return
		}
	}
}
