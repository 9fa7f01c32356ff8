package migration

import (
	"context"
	"errors"

	"github.com/delaybridge/delaybridge/topology"
)

// Live asks a broker what vhost has, the virtual host that m asks about. It
// only reads. For exchanges, queues and bindings the user needs the tag
// management; what is refused beyond that is in [Definitions.Unseen].
func Live(ctx context.Context, m *topology.Management, vhost string) (Definitions, error) {
	d := Definitions{VHost: vhost, Live: true}
	for _, required := range []struct {
		path string
		into any
	}{
		{"exchanges/{vhost}", &d.Exchanges},
		{"queues/{vhost}", &d.Queues},
		{"bindings/{vhost}", &d.Bindings},
	} {
		if err := m.Get(ctx, required.path, required.into); err != nil {
			return Definitions{}, err
		}
	}
	for _, optional := range []struct {
		path, what, tag string
		into            any
	}{
		{"policies/{vhost}", "policies", "policymaker", &d.Policies},
		{"parameters/" + componentShovel + "/{vhost}", "shovels", "policymaker", &d.Shovels},
		{"vhosts/{vhost}/permissions", "permissions", "administrator", &d.Permissions},
		{"vhosts/{vhost}/topic-permissions", "topic permissions", "administrator", &d.TopicPermissions},
	} {
		err := m.Get(ctx, optional.path, optional.into)
		switch {
		case errors.Is(err, topology.ErrConfiguration):
			d.Unseen = append(d.Unseen, optional.what+": the broker shows them only to users with the tag "+optional.tag)
		case err != nil:
			return Definitions{}, err
		}
	}
	return d, nil
}
