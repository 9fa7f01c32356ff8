package broker

import (
	"net"
	"time"
)

// Gather is gather.
func Gather(conn net.Conn) net.Conn { return gather(conn) }

// GatherMost is gatherMost.
const GatherMost = gatherMost

// Gathered is how many bytes wait to be written.
func Gathered(conn net.Conn) int {
	g := conn.(*gathering) //nolint:forcetypeassert // made by Gather
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.pending)
}

// DialWithin is dialWithin.
func DialWithin(end time.Time) time.Duration { return dialWithin(end) }
