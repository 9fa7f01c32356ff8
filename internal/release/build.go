package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// repository is the root, seen from the folder in which this program runs.
const repository = "../.."

// allPlatforms is what a release is built for.
func allPlatforms() []string {
	return []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64"}
}

// release is what all files of a release have in common.
type release struct {
	version string    // without the v of the tag
	commit  string    // whole
	date    time.Time // of the commit; each file in each archive has it
	common  string    // folder with man pages and completions
	sbom    string    // the program that writes bills of materials
	out     string    // folder of what is published
}

// target is one platform's program and what goes along with it.
type target struct {
	*release
	goos, goarch string
	dir          string // has the program, notices and bill of materials
}

func (t target) program() string {
	if t.goos == "windows" {
		return "delaybridge.exe"
	}
	return "delaybridge"
}

// name is that of a file that is published for this platform.
func (t target) name(ending string) string {
	return fmt.Sprintf("delaybridge_%s_%s_%s%s", t.version, t.goos, t.goarch, ending)
}

// build writes a release to the folder out, which it replaces.
func build(ctx context.Context, out string, platforms []string, dirty bool) error {
	for _, platform := range platforms {
		if !slices.Contains(allPlatforms(), platform) {
			return fmt.Errorf("unknown platform %q: use %s", platform, strings.Join(allPlatforms(), ", "))
		}
	}
	if err := replaceable(out); err != nil {
		return err
	}
	if err := clean(ctx, dirty); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "delaybridge-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	r := &release{common: filepath.Join(work, "common"), sbom: filepath.Join(work, "cyclonedx-gomod"), out: filepath.Join(work, "out")}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	targets, err := r.compile(ctx, work, platforms)
	if err != nil {
		return err
	}
	if err := r.writePages(ctx); err != nil {
		return fmt.Errorf("man pages and completions: %w", err)
	}
	if _, err := goCommand(ctx, ".", nil, "build", "-trimpath", "-o", r.sbom, "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod"); err != nil {
		return err
	}
	for _, t := range targets {
		if err := t.publish(ctx); err != nil {
			return fmt.Errorf("%s/%s: %w", t.goos, t.goarch, err)
		}
	}
	if err := writeChecksums(r.out); err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	return os.CopyFS(out, os.DirFS(r.out))
}

// replaceable refuses a folder that this program has not written.
func replaceable(out string) error {
	entries, err := os.ReadDir(out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(entries) == 0 || slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == checksums }) {
		return nil
	}
	return fmt.Errorf("%s is no release, since it has no %s: remove it, or name another folder", out, checksums)
}

// clean makes sure that what is built is what the commit says.
func clean(ctx context.Context, dirty bool) error {
	cmd := exec.CommandContext(ctx, "git", "status", "--porcelain")
	cmd.Dir = repository
	changed, err := output(cmd)
	switch {
	case err != nil:
		return fmt.Errorf("%w: a release is built from a clone, whose commit gives version and date", err)
	case dirty || len(changed) == 0:
		return nil
	}
	return fmt.Errorf("there are changes that are not committed, and nobody could build the same: commit them, or give -dirty for a try\n%s", changed)
}

// compile builds the program for each platform, and takes version, commit and date from it.
func (r *release) compile(ctx context.Context, work string, platforms []string) ([]target, error) {
	var targets []target
	for _, platform := range platforms {
		goos, goarch, _ := strings.Cut(platform, "/")
		t := target{release: r, goos: goos, goarch: goarch, dir: filepath.Join(work, goos+"-"+goarch)}
		began := time.Now()
		file := filepath.Join(t.dir, t.program())
		if _, err := goCommand(ctx, repository, t.environment(), "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", file, "./cmd/delaybridge"); err != nil {
			return nil, err
		}
		fmt.Fprintf(os.Stderr, "release: %s built in %.0f s\n", platform, time.Since(began).Seconds())
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return nil, err
		}
		r.version = strings.TrimPrefix(info.Main.Version, "v")
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				r.commit = s.Value
			case "vcs.time":
				if r.date, err = time.Parse(time.RFC3339, s.Value); err != nil {
					return nil, err
				}
			}
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// environment has all that decides what the compiler makes of the same source.
func (t target) environment() []string {
	return []string{"GOOS=" + t.goos, "GOARCH=" + t.goarch, "GOAMD64=v1", "GOARM64=v8.0"}
}

// publish writes all that there is for one platform.
func (t target) publish(ctx context.Context) error {
	if err := t.writeNotices(ctx); err != nil {
		return fmt.Errorf("licence notices: %w", err)
	}
	if err := t.writeBill(ctx); err != nil {
		return fmt.Errorf("bill of materials: %w", err)
	}
	if err := t.writeArchive(); err != nil {
		return err
	}
	if t.goos != "linux" {
		return nil
	}
	for _, format := range []string{"deb", "rpm"} {
		if err := t.writePackage(format); err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
	}
	if err := t.writeImage(); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	return nil
}

// writeBill writes which modules are in the program, with their licences.
func (t target) writeBill(ctx context.Context) error {
	file := filepath.Join(t.out, t.name(".cdx.json"))
	cmd := exec.CommandContext(ctx, t.sbom, "app", "-json", "-std", "-licenses", "-noserial", "-notimestamp",
		"-main", "cmd/delaybridge", "-output", file, repository)
	cmd.Env = append(buildEnvironment(), t.environment()...)
	_, err := output(cmd)
	return err
}

// goCommand runs the go command, without the settings of who runs it.
func goCommand(ctx context.Context, dir string, environment []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, append(buildEnvironment(), environment...)
	return output(cmd)
}

func buildEnvironment() []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=", "GOFIPS140=off")
}

// output runs a command and returns what it prints. The error has what it says went wrong.
func output(cmd *exec.Cmd) ([]byte, error) {
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(said.String()))
	}
	return out, nil
}
