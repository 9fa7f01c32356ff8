// Package secretfile reads URLs from files. A command line and an environment, which others may
// see, then have no password in them, and a password can change while a process runs.
package secretfile

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

const scheme = "file://"

// CredentialsVariable is the environment variable with the directory in which systemd puts the
// files of LoadCredential=.
const CredentialsVariable = "CREDENTIALS_DIRECTORY"

// URL returns the form in which a file is named where a URL is wanted. A relative path is
// relative to the working directory of now.
func URL(path string) string {
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	return scheme + path
}

// Path returns the path of file:///path, as it is written: nothing in it is escaped.
func Path(rawURL string) (path string, ok bool) {
	path, ok = strings.CutPrefix(rawURL, scheme)
	return path, ok && filepath.IsAbs(path)
}

// Resolve returns what the file of file:///path has in it now, and any other URL as it is. The
// error names the file, and quotes nothing of it.
func Resolve(rawURL string) (string, error) {
	if path, ok := Path(rawURL); ok {
		return Read(path)
	}
	return rawURL, nil
}

// Read returns the one line of a file, without the space around it. The error names the file,
// and quotes nothing of it.
func Read(path string) (string, error) {
	content, err := os.ReadFile(path) //nolint:gosec // the user named it
	if err != nil {
		return "", err
	}
	line := strings.TrimSpace(string(content))
	switch {
	case line == "":
		err = errors.New("it is empty")
	case strings.ContainsAny(line, "\r\n"):
		err = errors.New("it has more than one line")
	case strings.HasPrefix(line, scheme):
		err = errors.New("it names a file in turn")
	default:
		return line, nil
	}
	return "", fmt.Errorf("%s: %w; write the URL, or the token, into it, as its only line", path, err)
}

// Warn logs that a file is exposed.
func Warn(log *slog.Logger, path string) {
	log.Warn("others may read a file with a password; let its owner alone read it (chmod 600)", "file", path)
}

// Exposed reports whether others than the file's owner may read or change it. In the directory
// of systemd's credentials, where there is one, systemd takes care of that.
func Exposed(path, credentials string) bool {
	if credentials != "" && filepath.Dir(path) == filepath.Clean(credentials) {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0
}
