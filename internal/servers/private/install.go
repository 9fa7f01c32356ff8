package private

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// policyFile is what Debian's packages ask whether they may start a service.
const policyFile = "/usr/sbin/policy-rc.d"

// installCommand is what a person would type; missing packages follow it.
const installCommand = "apt-get install -y --no-install-recommends"

// Ensure installs the Debian packages that are missing where this process may, and starts no
// service. otherwise is what a person may do instead of installing it.
func Ensure(ctx context.Context, missingPackages func() []string, otherwise string) error {
	missing := missingPackages()
	if len(missing) == 0 {
		return nil
	}
	command := installCommand + " " + strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("%s not found: install it%s", strings.Join(missing, " and "), otherwise)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("%s not found, and only root may install packages: run `sudo %s`",
			strings.Join(missing, " and "), command)
	}
	// Test binaries run side by side; one installs and the others wait.
	unlock, err := lockFile(filepath.Join(os.TempDir(), "delaybridge-install.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if missing = missingPackages(); len(missing) == 0 {
		return nil
	}
	if err := install(ctx, missing); err != nil {
		return fmt.Errorf("%w: run `apt-get update && %s` and see why", err, command)
	}
	return nil
}

// install runs apt-get, its output on standard error.
func install(ctx context.Context, packages []string) (err error) {
	allow, err := forbidServices(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, allow()) }()
	fmt.Fprintln(os.Stderr, "installing", strings.Join(packages, ", "))
	for _, args := range [][]string{
		{"update", "-q"},
		append(strings.Fields(installCommand)[1:], packages...),
	} {
		if err := apt(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// apt runs apt-get without questions; another apt-get at work is waited for.
func apt(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Use-Pty=0"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("apt-get %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// forbidServices keeps packages from starting their services until the returned
// function is called. A policy that is there already must say the same.
func forbidServices(ctx context.Context) (allow func() error, err error) {
	const forbidden = 101 // the exit code for "not allowed", see invoke-rc.d(8)
	file, err := os.OpenFile(policyFile, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if errors.Is(err, fs.ErrExist) {
		var exit *exec.ExitError
		err = exec.CommandContext(ctx, policyFile, "rabbitmq-server", "start").Run()
		if errors.As(err, &exit) && exit.ExitCode() == forbidden {
			return func() error { return nil }, nil
		}
		return nil, fmt.Errorf("%s lets packages start system services", policyFile)
	}
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(file, "#!/bin/sh\nexit %d\n", forbidden)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, errors.Join(err, os.Remove(policyFile))
	}
	return func() error { return os.Remove(policyFile) }, nil
}

// lockFile waits until this process is the only one that holds the file.
func lockFile(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(&fs.PathError{Op: "lock", Path: path, Err: err}, file.Close())
	}
	return func() { _ = file.Close() }, nil
}
