package migration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/topology"
)

// Look is what a broker told at one instant.
type Look struct {
	At        time.Time
	Exchanges []Sample
	// Publishers are those of all exchanges of the virtual host. Samples have theirs only
	// where the broker tells who publishes to which exchange, which is Detailed.
	Publishers []Publisher
	Detailed   bool
	Nodes      []string // that were asked
	NotAsked   []string // nodes of the cluster, also those that are down, which hold messages of their own
	Unknown    []string // what the broker does not tell, and what to do about it
}

// Sample is what a look tells of one exchange of the plugin.
type Sample struct {
	Exchange, Type string
	Delayed        *int64 // held on the nodes that were asked; nil where the broker does not tell
	// Published is how many messages clients have published to it; nil where the broker does
	// not count. It begins anew when a node restarts.
	Published *int64
	// PublishedToEntry is the same of the entry exchange; nil if there is none.
	PublishedToEntry *int64
	// Publishers are nil where the broker does not tell who publishes to which exchange.
	Publishers []Publisher
}

// Publisher is a connection that publishes.
type Publisher struct {
	Connection string  `json:"connection"`
	Name       string  `json:"name"` // that the client has given it; "" if none
	User       string  `json:"user"`
	Node       string  `json:"node"`
	Published  int64   `json:"published"` // by the channels that are open
	Rate       float64 `json:"published_per_second"`
}

// overview is what the API tells about itself.
type overview struct {
	Node         string `json:"node"`
	RatesMode    string `json:"rates_mode"`
	DisableStats bool   `json:"disable_stats"`
}

const (
	ratesNone     = "none"
	ratesDetailed = "detailed"
)

// counted is an exchange with its statistics, which are up to ten seconds old.
type counted struct {
	Exchange
	Stats *struct {
		In *int64 `json:"publish_in"`
	} `json:"message_stats"`
}

// TakeLook asks every node what it has of the exchanges. Nodes are clients of the management
// API of the nodes of one cluster, for the same virtual host. Entries are the names of the
// entry exchanges, by exchange of the plugin; only names the exchanges to look at, all if there are
// none. It only reads. Errors wrap ErrUnreachable or
// ErrConfiguration of topology, or [ErrInput] where two addresses lead to one node.
func TakeLook(ctx context.Context, nodes []*topology.Management, entries map[string]string, only []string) (Look, error) {
	look := Look{At: time.Now()}
	var first overview
	var members []struct {
		Name string `json:"name"`
	}
	samples := map[string]Sample{}
	for i, m := range nodes {
		var about overview
		if err := m.Get(ctx, "overview", &about); err != nil {
			return Look{}, err
		}
		switch {
		case about.Node == "":
			return Look{}, fmt.Errorf("%w: %s does not show user %q which nodes there are, each of which holds messages of its own: the user needs the tag monitoring (rabbitmqctl set_user_tags)", topology.ErrConfiguration, m, m.User())
		case slices.Contains(look.Nodes, about.Node):
			return Look{}, fmt.Errorf("%w: %s is another address of node %s: name each node once", ErrInput, m, about.Node)
		}
		look.Nodes = append(look.Nodes, about.Node)
		if i == 0 {
			first = about
			if err := m.Get(ctx, "nodes", &members); err != nil {
				return Look{}, err
			}
		}
		var exchanges []counted
		if err := m.Get(ctx, "exchanges/{vhost}", &exchanges); err != nil {
			return Look{}, err
		}
		add(samples, exchanges, entries, i == 0, about.counts())
	}
	maps.DeleteFunc(samples, func(name string, _ Sample) bool { return len(only) > 0 && !slices.Contains(only, name) })
	for _, member := range members {
		if !slices.Contains(look.Nodes, member.Name) {
			look.NotAsked = append(look.NotAsked, member.Name)
		}
	}
	for _, name := range sortedKeys(samples) {
		look.Exchanges = append(look.Exchanges, samples[name])
	}
	return look, look.publishers(ctx, nodes[0], first)
}

func (o overview) counts() bool { return o.RatesMode != ratesNone && !o.DisableStats }

// add adds what one node tells. Counts of what was published are those of the whole cluster.
func add(samples map[string]Sample, exchanges []counted, entries map[string]string, first, counts bool) {
	published := map[string]*int64{}
	for _, x := range exchanges {
		n := new(int64) // none was published
		if x.Stats != nil && x.Stats.In != nil {
			n = x.Stats.In
		}
		if counts {
			published[x.Name] = n
		}
	}
	for _, x := range exchanges {
		if x.Type != PluginType {
			continue
		}
		s, known := samples[x.Name]
		switch {
		case first:
			s = Sample{
				Exchange: x.Name, Type: x.delayedType(), Delayed: x.Delayed,
				Published: published[x.Name], PublishedToEntry: published[entries[x.Name]],
			}
		case !known: // declared since the first node was asked
			continue
		case s.Delayed == nil || x.Delayed == nil:
			s.Delayed = nil
		default:
			sum := *s.Delayed + *x.Delayed
			s.Delayed = &sum
		}
		samples[x.Name] = s
	}
}

// traffic is what the API shows of a channel.
type traffic struct {
	Name       string `json:"name"`
	Connection string `json:"connection_name"`
	Node       string `json:"node"`
	User       string `json:"user"`
	Details    struct {
		Name string `json:"name"`
	} `json:"connection_details"`
	Stats published `json:"message_stats"`
}

type published struct {
	Publish int64 `json:"publish"`
	Details struct {
		Rate float64 `json:"rate"`
	} `json:"publish_details"`
}

// publishers adds who publishes, as far as the broker tells.
func (l *Look) publishers(ctx context.Context, m *topology.Management, about overview) error {
	if !about.counts() {
		l.Unknown = append(l.Unknown, "whether anybody publishes: the broker counts nothing (rates_mode none, or disabled statistics): set management.rates_mode = basic and restart the nodes")
		return nil
	}
	if len(l.Exchanges) == 0 {
		return nil
	}
	names, err := connectionNames(ctx, m)
	if err != nil {
		return err
	}
	if l.Detailed = about.RatesMode == ratesDetailed; !l.Detailed {
		var channels []traffic
		if err := m.Get(ctx, "vhosts/{vhost}/channels", &channels); err != nil {
			return err
		}
		l.Publishers = byConnection(channels, names)
		return nil
	}
	for i, s := range l.Exchanges {
		var x struct {
			Incoming []struct {
				Channel traffic   `json:"channel_details"`
				Stats   published `json:"stats"`
			} `json:"incoming"`
		}
		err := m.Get(ctx, "exchanges/{vhost}/"+escape(s.Exchange), &x)
		if errors.Is(err, topology.ErrConfiguration) {
			continue // it was deleted since
		}
		if err != nil {
			return err
		}
		channels := make([]traffic, len(x.Incoming))
		for j, in := range x.Incoming {
			channels[j] = in.Channel
			channels[j].Stats = in.Stats
		}
		l.Exchanges[i].Publishers = byConnection(channels, names)
	}
	return nil
}

// detailedRates has a broker tell who publishes to which exchange.
const detailedRates = "which connection publishes to which exchange: the broker tells only with rates_mode detailed: management.rates_mode = detailed in rabbitmq.conf and a restart, or, until the next restart, on each node: rabbitmqctl eval 'application:set_env(rabbitmq_management_agent, rates_mode, detailed), application:stop(rabbitmq_management), application:stop(rabbitmq_management_agent), application:start(rabbitmq_management_agent), application:start(rabbitmq_management).'"

// connectionNames are those that clients have given their connections.
func connectionNames(ctx context.Context, m *topology.Management) (map[string]string, error) {
	var connections []struct {
		Name       string `json:"name"`
		Properties struct {
			Name string `json:"connection_name"`
		} `json:"client_properties"`
	}
	if err := m.Get(ctx, "vhosts/{vhost}/connections", &connections); err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, c := range connections {
		names[c.Name] = c.Properties.Name
	}
	return names, nil
}

// byConnection adds up channels that have published, those that do so fastest first.
func byConnection(channels []traffic, names map[string]string) []Publisher {
	byName := map[string]Publisher{}
	for _, c := range channels {
		if c.Stats.Publish == 0 {
			continue
		}
		name := cmp.Or(c.Connection, c.Details.Name)
		p := byName[name]
		p.Connection, p.Name, p.User, p.Node = name, names[name], c.User, c.Node
		p.Published += c.Stats.Publish
		p.Rate += c.Stats.Details.Rate
		byName[name] = p
	}
	list := make([]Publisher, 0, len(byName))
	for _, name := range sortedKeys(byName) {
		list = append(list, byName[name])
	}
	slices.SortStableFunc(list, func(a, b Publisher) int { return cmp.Compare(b.Rate, a.Rate) })
	return list
}
