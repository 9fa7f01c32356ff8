// Package overlay builds Go programs with other files than those on disk.
package overlay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// Build builds the main package importPath into the file output, without the race detector.
// The content of files, named by their absolute paths as the go command names them, takes
// the place of what is on disk, or stands beside it. The package is resolved in the current
// folder's module. An error carries what the compiler had to say.
func Build(ctx context.Context, importPath, output string, files map[string][]byte) error {
	dir, err := os.MkdirTemp("", "delaybridge-overlay-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var list struct{ Replace map[string]string }
	list.Replace = map[string]string{}
	for name, content := range files {
		path := filepath.Join(dir, strconv.Itoa(len(list.Replace))+filepath.Ext(name))
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
		list.Replace[name] = path
	}
	content, err := json.Marshal(list)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return err
	}
	_, err = Go(ctx, "build", "-race=false", "-overlay", path, "-o", output, importPath)
	return err
}

// Go runs the go command and returns what it prints.
func Go(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, stderr.Bytes())
	}
	return out, nil
}
