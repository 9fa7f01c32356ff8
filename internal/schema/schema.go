// Package schema brings tables up to date, in databases that belong to somebody
// else: it keeps the version of each component in a table of its own.
package schema

import (
	"fmt"
	"io/fs"
)

// Table holds how many scripts each component has had.
const Table = "delaybridge_schema"

// Scripts lead from one version of a component's tables to the next, from nothing
// on. To change tables, add a script; never change one that was released.
type Scripts []string

// Read reads the scripts of a component, in the order of their names.
func Read(files fs.FS) (Scripts, error) {
	names, err := fs.Glob(files, "migrations/*.sql") // sorted
	if err != nil {
		return nil, err
	}
	scripts := make(Scripts, len(names))
	for i, name := range names {
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		scripts[i] = string(content)
	}
	return scripts, nil
}

// After returns the scripts that are missing at a version.
func (s Scripts) After(version int) (Scripts, error) {
	if version > len(s) {
		return nil, fmt.Errorf("schema version %d was written by a later release; this one knows up to %d", version, len(s))
	}
	return s[version:], nil
}
