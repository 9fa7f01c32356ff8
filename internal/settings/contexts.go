package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/delaybridge/delaybridge/internal/secretfile"
)

// ContextVariable is the environment variable that names a context.
const ContextVariable = "DELAYBRIDGE_CONTEXT"

// named is a context's name and who gave it.
type named struct{ text, from string }

// contextName returns which context was chosen, if one was.
func (s Sources) contextName() (named, error) {
	n := named{s.Context, "flag --context"}
	if text, ok := s.LookupEnv(ContextVariable); ok && n.text == "" {
		n = named{text, "environment " + ContextVariable}
	}
	if n.text != "" && s.File != "" {
		return n, fmt.Errorf("%s %s and %s exclude each other: leave one out", n.from, n.text, s.FileFrom)
	}
	return n, nil
}

// A Context is a set of settings with a name, for one installation.
type Context struct {
	Name   string
	values map[string]string
}

// Value returns one of its settings, as written; empty where it has none of that name.
func (c Context) Value(key string) string { return c.values[key] }

// ContextsFile returns where contexts are: in the user's folder of settings.
func (s Sources) ContextsFile() (string, error) {
	directory, ok := s.whole().LookupEnv("XDG_CONFIG_HOME")
	if !ok || directory == "" {
		var err error
		if directory, err = os.UserConfigDir(); err != nil {
			return "", err
		}
	}
	return filepath.Join(directory, "delaybridge", "contexts.yaml"), nil
}

// Contexts returns all contexts, by name. Without a file there are none.
func (s Sources) Contexts() ([]Context, error) {
	path, err := s.ContextsFile()
	if err != nil {
		return nil, err
	}
	raw, err := readYAML(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Context
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		settings, ok := raw[name].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s: %s: want the settings of this context, such as amqp-url-file and prefix", path, name)
		}
		values, err := valuesOf(path+": "+name, settings)
		if err != nil {
			return nil, err
		}
		all = append(all, Context{name, values})
	}
	return all, nil
}

// context returns the one that was chosen, or none.
func (s Sources) context() (*Context, error) {
	name, err := s.contextName()
	if err != nil || name.text == "" {
		return nil, err
	}
	path, err := s.ContextsFile()
	if err != nil {
		return nil, err
	}
	all, err := s.Contexts()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, c := range all {
		if c.Name == name.text {
			return &c, s.keepsSecrets(path, c)
		}
		names = append(names, c.Name)
	}
	there := "there are " + strings.Join(names, ", ")
	if len(names) == 0 {
		there = "there are none"
	}
	return nil, fmt.Errorf("%s: there is no context %q in %s; %s", name.from, name.text, path, there)
}

// keepsSecrets fails where others may read passwords.
func (s Sources) keepsSecrets(path string, c Context) error {
	credentials, _ := s.LookupEnv(secretfile.CredentialsVariable)
	if !secretfile.Exposed(path, credentials) {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(c.values)) {
		if strings.HasSuffix(key, "-url") && mayHavePassword(c.values[key]) {
			return fmt.Errorf("%s: %s: %s may have a password in it, and others may read the file: chmod 600 %s, or put the URL into a file of its own (%s-file)",
				path, c.Name, key, path, key)
		}
	}
	return nil
}

func mayHavePassword(text string) bool {
	u, err := url.Parse(text)
	return err != nil || u.User != nil || u.RawQuery != "" || u.Scheme == ""
}

// ofPerson are settings of the person who types the command, and of no installation.
func ofPerson(key string) bool {
	return key == "log-level" || key == "log-format" || key == "connect-timeout"
}
