package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// The releases that tests install, of what is in the work tree, committed or not.
const (
	first  = "0.1.0"
	second = "0.2.0"
	date   = "2026-01-02T03:04:05Z" // of both commits
)

// releases are built once for all tests.
type releases struct {
	dir string
	err error
}

var built releases //nolint:gochecknoglobals // costs a minute, and all tests read it

// dist returns a release's folder.
func dist(t *testing.T, name string) string {
	t.Helper()
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, name)
}

// published returns a file of a release.
func published(t *testing.T, version, ending string) string {
	t.Helper()
	return filepath.Join(dist(t, version), "delaybridge_"+version+"_linux_amd64"+ending)
}

// build makes the first release twice, in repositories at different places, and the second one.
func (r releases) build() error {
	here, there := filepath.Join(r.dir, "here"), filepath.Join(r.dir, "elsewhere", "there")
	if err := copyTree(here); err != nil {
		return err
	}
	if err := git(here, "init", "--quiet"); err != nil {
		return err
	}
	if err := commit(here, first); err != nil {
		return err
	}
	if err := git(r.dir, "clone", "--quiet", here, there); err != nil {
		return err
	}
	if err := buildIn(here, r.dir, first); err != nil {
		return err
	}
	if err := commit(here, second); err != nil {
		return err
	}
	var again, next error
	var wait sync.WaitGroup
	wait.Go(func() { again = buildIn(there, r.dir, "again") })
	wait.Go(func() { next = buildIn(here, r.dir, second) })
	wait.Wait()
	return errors.Join(again, next)
}

// buildIn has the program of a repository build its release.
func buildIn(repository, dir, name string) error {
	cmd := exec.Command("go", "run", "-C", filepath.Join(repository, "internal", "release"), ".", "-out", filepath.Join(dir, name), "-platforms", "linux/amd64")
	return said(cmd)
}

// copyTree copies what is under version control here, or is to be.
func copyTree(to string) error {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = repository
	list, err := cmd.Output()
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		from := filepath.Join(repository, name)
		info, err := os.Stat(from)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed, and not committed
		}
		if err != nil {
			return err
		}
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(to, filepath.Dir(name)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), content, info.Mode().Perm()); err != nil {
			return err
		}
	}
	return nil
}

// commit commits all that there is, and tags it.
func commit(dir, version string) error {
	return errors.Join(
		git(dir, "add", "--all"),
		git(dir, "-c", "user.name=test", "-c", "user.email=test@example.org", "commit", "--quiet", "--allow-empty", "--message", version),
		git(dir, "tag", "v"+version),
	)
}

func git(dir string, args ...string) error {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_AUTHOR_DATE="+date, "GIT_COMMITTER_DATE="+date)
	return said(cmd)
}

// said runs a command. The error has all that it prints.
func said(cmd *exec.Cmd) error {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out.Bytes())
	}
	return nil
}
