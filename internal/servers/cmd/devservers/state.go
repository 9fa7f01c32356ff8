package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// stateDir is where up leaves what down needs, in the working directory.
const stateDir = ".run"

// Files in the state folder.
const (
	lockFile    = "lock"    // locked by the holder and no one else; its process ID
	addressFile = "servers" // where the servers answer, once they do
	holderLog   = "holder.log"
	bridgeLog   = "bridge.log"
)

// errHeld says that a holder runs already.
var errHeld = errors.New("servers run already")

// addresses are what up tells the shell.
type addresses struct {
	AMQP       string `json:"amqp"`
	Management string `json:"management"`
	Redis      string `json:"redis"`
}

// environment is the addresses as delaybridge reads them.
func (a addresses) environment() []string {
	return []string{
		"DELAYBRIDGE_AMQP_URL=" + a.AMQP,
		"DELAYBRIDGE_MANAGEMENT_URL=" + a.Management,
		"DELAYBRIDGE_REDIS_URL=" + a.Redis,
	}
}

// exports is the addresses as lines for a shell to evaluate.
func (a addresses) exports() string {
	var lines strings.Builder
	for _, setting := range a.environment() {
		name, value, _ := strings.Cut(setting, "=")
		fmt.Fprintf(&lines, "export %s='%s'\n", name, value)
	}
	return lines.String()
}

// inState is the path of a file in the state folder.
func inState(name string) string { return filepath.Join(stateDir, name) }

// makeStateDir makes the folder, and keeps git from looking at it.
func makeStateDir() error {
	if err := os.MkdirAll(stateDir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(inState(".gitignore"), []byte("*\n"), 0o644)
}

// hold makes this process the holder until it ends, or returns errHeld. The
// lock, unlike a process ID in a file, cannot outlive its process.
func hold() (*os.File, error) {
	file, err := os.OpenFile(inState(lockFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = errHeld
		}
		return nil, errors.Join(err, file.Close())
	}
	if err := file.Truncate(0); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if _, err := fmt.Fprint(file, os.Getpid()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// holder returns the process ID of the holder, 0 when there is none.
func holder() (int, error) {
	file, err := os.Open(inState(lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if err == nil {
		return 0, nil
	}
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return 0, fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return 0, err
	}
	if len(content) == 0 {
		return 0, errors.New("servers are just being started: try again")
	}
	return strconv.Atoi(string(content))
}

// writeAddresses tells everybody that the servers answer.
func writeAddresses(a addresses) error {
	content, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return os.WriteFile(inState(addressFile), content, 0o600)
}

// readAddresses fails with fs.ErrNotExist while the servers do not answer yet.
func readAddresses() (addresses, error) {
	var a addresses
	content, err := os.ReadFile(inState(addressFile))
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(content, &a)
}
