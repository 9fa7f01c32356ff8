package redisserver

import (
	"context"
	"fmt"
	"strings"

	"github.com/delaybridge/delaybridge/internal/servers/lifecycle"
	"github.com/delaybridge/delaybridge/internal/servers/private"
)

// A member is what one Redis server of a layout has of its own.
type member struct {
	file  string // of the shipped ones, or a name without one
	ports int    // the first is the server's; one more, the last, is for TLS
	args  []string
	env   map[string]string
	tls   *private.TLS // nil is none
	// more returns further settings, by ports; nil is none.
	more func(ports []int) string
}

// settings are those that the server needs besides the shipped ones.
func (m member) settings(dir string, ports []int) string {
	var lines strings.Builder
	fmt.Fprintf(&lines, "\nbind 127.0.0.1\nport %d\ndir %s\n", ports[0], dir)
	if m.tls != nil {
		lines.WriteString(tlsSettings(m.tls, ports[len(ports)-1]))
	}
	if m.more != nil {
		lines.WriteString(m.more(ports))
	}
	return lines.String()
}

// handle makes the handle of the server.
func (m member) handle(i lifecycle.Instance, ports []int) *Node {
	r := New(i, ports[0])
	r.busPort = ports[m.ports-1]
	if m.tls != nil {
		r.tlsPort = ports[len(ports)-1]
	}
	return r
}

// newMember prepares a server that is not started yet. Members of a layout know
// each other, and are known to clients, by loopback addresses, in containers too.
func (c Config) newMember(ctx context.Context, m member) (*Node, error) {
	if c.Image != "" {
		return newMemberContainer(ctx, c.Image, m)
	}
	m.tls = c.TLS
	return newPrivate(ctx, m)
}
