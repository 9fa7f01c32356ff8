package migration

import (
	"encoding/json"
	"fmt"
)

// Rest is a file of definitions without the plugin's exchanges, of any virtual
// host, and without the bindings from and to them; everything else is as it
// was. A broker without the plugin refuses the whole file over one such
// exchange, half-way through.
func Rest(file []byte) ([]byte, error) {
	e, err := decode(file)
	if err != nil {
		return nil, err
	}
	type name struct{ vhost, exchange string }
	plugins := map[name]bool{}
	for _, x := range *e.Exchanges {
		plugins[name{x.VHost, x.Name}] = x.Type == PluginType
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(file, &all); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	err = keep(all, "exchanges", func(i int) bool { return (*e.Exchanges)[i].Type != PluginType })
	if err != nil {
		return nil, err
	}
	err = keep(all, "bindings", func(i int) bool {
		b := e.Bindings[i]
		return !plugins[name{b.VHost, b.Source}] && (b.DestinationType != kindExchange || !plugins[name{b.VHost, b.Destination}])
	})
	if err != nil {
		return nil, err
	}
	return json.MarshalIndent(all, "", "  ")
}

// keep leaves in the list of that name what is wanted, as it was written.
func keep(all map[string]json.RawMessage, list string, wanted func(i int) bool) error {
	var items []json.RawMessage
	if err := json.Unmarshal(all[list], &items); all[list] != nil && err != nil {
		return fmt.Errorf("%w: %s: %w", ErrInput, list, err)
	}
	kept := []json.RawMessage{}
	for i, item := range items {
		if wanted(i) {
			kept = append(kept, item)
		}
	}
	text, err := json.Marshal(kept)
	all[list] = text
	return err
}
