package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const notices = "THIRD-PARTY-NOTICES.txt"

var licenceName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|copyright|patents)([-._].*)?$`)

// writeNotices collects the licences of all modules with a package in the program, and of Go itself.
// A module without one is an error: it may not be given away.
func (t target) writeNotices(ctx context.Context) error {
	list, err := goCommand(ctx, repository, t.environment(), "list", "-deps",
		"-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}\t{{$.Dir}}{{end}}{{end}}", "./cmd/delaybridge")
	if err != nil {
		return err
	}
	files := map[string]map[string]bool{} // by module
	for line := range strings.Lines(string(list)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 3 {
			continue
		}
		module, top, dir := fields[0], fields[1], fields[2]
		if files[module] == nil {
			files[module] = map[string]bool{}
		}
		for ; strings.HasPrefix(dir, top); dir = filepath.Dir(dir) {
			if err := licences(dir, files[module]); err != nil {
				return err
			}
		}
	}
	root, err := goCommand(ctx, ".", nil, "env", "GOROOT", "GOVERSION")
	if err != nil {
		return err
	}
	goroot, version, _ := strings.Cut(strings.TrimSpace(string(root)), "\n")
	goItself := "Go " + version
	files[goItself] = map[string]bool{}
	if err := licences(goroot, files[goItself]); err != nil {
		return err
	}

	var text bytes.Buffer
	fmt.Fprintf(&text, "delaybridge %s for %s/%s has in it parts of what follows, each with its licence.\n", t.version, t.goos, t.goarch)
	for _, module := range slices.Sorted(maps.Keys(files)) {
		if len(files[module]) == 0 {
			return fmt.Errorf("%s has no licence: find out under which one it is, or do without", module)
		}
		for _, file := range slices.Sorted(maps.Keys(files[module])) {
			licence, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			fmt.Fprintf(&text, "\n%s\n%s: %s\n\n%s\n", strings.Repeat("=", 80), module, filepath.Base(file), bytes.TrimSpace(licence))
		}
	}
	return os.WriteFile(filepath.Join(t.dir, notices), text.Bytes(), 0o644)
}

// licences adds those of one folder.
func licences(dir string, to map[string]bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Type().IsRegular() && licenceName.MatchString(entry.Name()) && filepath.Ext(entry.Name()) != ".go" {
			to[filepath.Join(dir, entry.Name())] = true
		}
	}
	return nil
}
