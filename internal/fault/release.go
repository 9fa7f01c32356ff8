package fault

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// earlierRelease is the commit that "release changed" takes for the release before this one.
const earlierRelease = "ea1898b17011db0e87614cb288681adde7944980"

// buildEarlier builds this program as it was in the earlier release. The current folder's repository has to know
// the commit. An error carries what git and the compiler had to say.
func buildEarlier(ctx context.Context, output string) error {
	dir, err := os.MkdirTemp("", "delaybridge-earlier-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	run := func(in, name string, args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir = in
		said, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%s %s: %w\n%s", name, args[0], err, said)
		}
		return strings.TrimSpace(string(said)), err
	}
	root, err := run("", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	archive := filepath.Join(dir, "source.tar")
	for _, step := range []struct {
		in   string
		args []string
	}{
		{root, []string{"git", "archive", "--format=tar", "--output=" + archive, earlierRelease}},
		{dir, []string{"tar", "-xf", archive}},
		{dir, []string{"go", "build", "-race=false", "-buildvcs=false", "-o", output, "./internal/fault/cmd/fault"}},
	} {
		if _, err := run(step.in, step.args[0], step.args[1:]...); err != nil {
			return err
		}
	}
	return nil
}
