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

// Variable is the environment variable that names a file which [Write] has written. A program
// that is built so hands on to the programs that it builds what it was built with.
const Variable = "DELAYBRIDGE_FAULT_OVERLAY"

// Build builds the main package importPath into the file output, without the race detector.
// The content of files, named by their absolute paths as the go command names them, takes
// the place of what is on disk, or stands beside it, and so does what [Variable] names. The
// package is resolved in the current folder's module. An error carries what the compiler had to say.
func Build(ctx context.Context, importPath, output string, files map[string][]byte) error {
	dir, err := os.MkdirTemp("", "delaybridge-overlay-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path, err := Write(dir, files)
	if err != nil {
		return err
	}
	_, err = Go(ctx, "build", "-race=false", "-overlay", path, "-o", output, importPath)
	return err
}

// Write writes what [Build] does with files into dir, and returns the file that the go command takes
// after -overlay.
func Write(dir string, files map[string][]byte) (path string, err error) {
	list := struct{ Replace map[string]string }{map[string]string{}}
	if first, ok := os.LookupEnv(Variable); ok {
		content, err := os.ReadFile(first)
		if err == nil {
			err = json.Unmarshal(content, &list)
		}
		if err != nil {
			return "", fmt.Errorf("environment %s: %w", Variable, err)
		}
	}
	for name, content := range files {
		path := filepath.Join(dir, strconv.Itoa(len(list.Replace))+filepath.Ext(name))
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return "", err
		}
		list.Replace[name] = path
	}
	content, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, content, 0o600)
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
