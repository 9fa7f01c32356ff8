package settings

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// file is what a settings file has.
type file struct {
	path     string
	values   map[string]string
	sections map[string]map[string][]string // by command and flag
}

// file reads the settings file, if one is named and no context takes its place.
func (s Sources) file() (file, error) {
	name, err := s.contextName()
	if err != nil || name.text != "" {
		return file{}, err
	}
	path, from := s.File, s.FileFrom
	if env, ok := s.LookupEnv(FileVariable); ok && path == "" {
		path, from = env, "environment "+FileVariable
	}
	f, err := readFile(path)
	if err != nil && from != "" {
		err = fmt.Errorf("%s: %w", from, err)
	}
	return f, err
}

// readFile reads a settings file. An unknown key is an error.
func readFile(path string) (file, error) {
	f := file{path: path, values: map[string]string{}, sections: map[string]map[string][]string{}}
	raw, err := readYAML(path)
	if err != nil {
		return f, err
	}
	for key, v := range raw {
		if section, ok := v.(map[string]any); ok && slices.Contains(Sections(), key) {
			if f.sections[key], err = textsOf(path+": "+key, section); err != nil {
				return f, err
			}
			delete(raw, key)
		}
	}
	f.values, err = valuesOf(path, raw)
	return f, err
}

// readYAML reads a file of YAML; without a path it is empty.
func readYAML(path string) (map[string]any, error) {
	if path == "" {
		return nil, nil
	}
	content, err := os.ReadFile(path) //nolint:gosec // the user named it
	if err != nil {
		return nil, err
	}
	var raw map[string]any
	if err := yaml.Unmarshal(content, &raw); err != nil {
		// Without the lines of the file, which may have a password in them.
		return nil, fmt.Errorf("%s: %s", path, yaml.FormatError(err, false, false))
	}
	return raw, nil
}

// valuesOf are those of settings. An unknown key is an error.
func valuesOf(where string, raw map[string]any) (map[string]string, error) {
	for key := range raw {
		if !slices.Contains(keys(), key) {
			return nil, fmt.Errorf("%s: unknown key %q: use %s", where, key, strings.Join(keys(), ", "))
		}
	}
	lists, err := textsOf(where, raw)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for key, texts := range lists {
		values[key] = strings.Join(texts, ",")
	}
	return values, nil
}

// textsOf returns values as they were written, and the elements of lists.
func textsOf(where string, raw map[string]any) (map[string][]string, error) {
	all := map[string][]string{}
	for key, v := range raw {
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		texts := []string{}
		for _, one := range list {
			switch one.(type) {
			case map[string]any, []any, nil:
				return nil, fmt.Errorf("%s: %s: want a value or a list of values", where, key)
			}
			texts = append(texts, fmt.Sprint(one))
		}
		all[key] = texts
	}
	return all, nil
}
