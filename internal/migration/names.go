package migration

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/delaybridge/delaybridge/topology"
)

// entryNames gives each exchange the name of its entry: that in chosen, or its
// own, or where that does not do one made from it. All of the plugin's
// exchanges are named together, whichever are asked for, so that each run gives
// the same names.
func entryNames(exchanges []Exchange, chosen map[string]string, configured []topology.Entry) map[string]string {
	names, taken := map[string]string{}, map[string]bool{}
	fits := func(x Exchange, name string) bool {
		return !taken[name] && validEntry(name) && !slices.ContainsFunc(configured, func(e topology.Entry) bool {
			return e.Name == name && e.Kind != x.delayedType()
		})
	}
	give := func(x Exchange, name string) {
		names[x.Name] = name
		taken[name] = true
	}
	for _, x := range exchanges {
		if name, ok := chosen[x.Name]; ok {
			give(x, name)
		}
	}
	for _, x := range exchanges { // who can keep its name goes first
		if names[x.Name] == "" && fits(x, x.Name) {
			give(x, x.Name)
		}
	}
	for _, x := range exchanges {
		if names[x.Name] != "" {
			continue
		}
		name := derive(x.Name)
		if !fits(x, name) {
			sum := sha256.Sum256([]byte(x.Name))
			name = strings.TrimRight(name[:min(len(name), longestDerived)]+"-"+hex.EncodeToString(sum[:4]), "-")
		}
		give(x, name)
	}
	return names
}

// longestDerived leaves room for the hash in a derived name.
const longestDerived = 80

var notAllowed = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// derive makes a valid name of an exchange's.
func derive(name string) string {
	name = strings.TrimLeft(notAllowed.ReplaceAllString(name, "-"), "._-")
	if name = strings.TrimRight(name[:min(len(name), longestDerived)], "-"); name == "" {
		return "delayed"
	}
	return name
}

func validEntry(name string) bool {
	_, err := topology.New(topology.Config{Entries: []topology.Entry{{Name: name, Kind: "direct"}}})
	return err == nil
}

// checkChosen returns every fault of the names that the user chose.
func checkChosen(exchanges []Exchange, chosen map[string]string) []error {
	var faults []error
	by := map[string]string{}
	for _, old := range sortedKeys(chosen) {
		name := chosen[old]
		if !slices.ContainsFunc(exchanges, func(x Exchange) bool { return x.Name == old }) {
			faults = append(faults, noSuch(old, exchanges))
		}
		if _, err := topology.New(topology.Config{Entries: []topology.Entry{{Name: name, Kind: "direct"}}}); err != nil {
			faults = append(faults, fmt.Errorf("%w: %w", ErrInput, err))
		}
		if other, ok := by[name]; ok {
			faults = append(faults, fmt.Errorf("%w: entry %q is to take the place of both %q and %q: each needs its own", ErrInput, name, other, old))
		}
		by[name] = old
	}
	return faults
}
