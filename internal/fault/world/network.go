package world

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// The servers to which links lead.
const (
	RabbitMQ = "rabbitmq"
	Redis    = "redis"
)

// network is the links between our processes and the servers. Each link is a
// proxy of its own, so that it can be broken alone.
type network struct {
	proxies *toxiproxy.ApiServer // never listens; the proxies want one
	links   map[string]*Link
}

func newNetwork() *network {
	return &network{
		proxies: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()),
		links:   map[string]*Link{},
	}
}

// Link is the way from one process to one server.
type Link struct {
	Name  string // such as "bridge-1 - redis"
	proxy *toxiproxy.Proxy
}

// connect makes a link to the server at rawURL and returns the URL by which to
// reach the server over it.
func (n *network) connect(name, rawURL string) (string, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", err
	}
	l := &Link{Name: name, proxy: toxiproxy.NewProxy(n.proxies, name, "127.0.0.1:0", u.Host)}
	if err := l.proxy.Start(); err != nil {
		return "", fmt.Errorf("link %s: %w", name, err)
	}
	n.links[name] = l
	u.Host = l.proxy.Listen
	return u.String(), nil
}

func (n *network) close() {
	for _, l := range n.links {
		l.proxy.Stop()
	}
}

// to lists the links to one server, by the end of their names.
func (n *network) to(server string) []*Link {
	var found []*Link
	for name, l := range n.links {
		if strings.HasSuffix(name, " - "+server) {
			found = append(found, l)
		}
	}
	slices.SortFunc(found, func(a, b *Link) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// Cut refuses connections and ends those there are.
func (l *Link) Cut() { l.proxy.Stop() }

// Join undoes [Link.Cut].
func (l *Link) Join() error { return l.proxy.Start() }

// lead has the link end at another server from now on, as a load balancer does
// or an address that moves.
func (l *Link) lead(rawURL string) error {
	u, err := url.Parse(rawURL)
	if err != nil {
		return err
	}
	l.proxy.Stop()
	return l.proxy.Update(&toxiproxy.Proxy{Listen: l.proxy.Listen, Upstream: u.Host, Enabled: true})
}

// Poison lets data through only as a toxic allows, in one direction or both.
func (l *Link) Poison(kind string, attributes map[string]int, directions ...string) error {
	for _, direction := range directions {
		toxic, err := json.Marshal(map[string]any{"name": kind + direction, "type": kind, "stream": direction, "attributes": attributes})
		if err != nil {
			return err
		}
		if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(string(toxic))); err != nil {
			return fmt.Errorf("link %s: %w", l.Name, err)
		}
	}
	return nil
}

// Heal takes all toxics away.
func (l *Link) Heal(ctx context.Context) { l.proxy.Toxics.ResetToxics(ctx) }

// Directions of a link, as toxiproxy calls them.
const (
	ToServer   = "upstream"
	FromServer = "downstream"
)
