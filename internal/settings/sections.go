package settings

import (
	"fmt"
	"slices"
	"strings"
)

// Sections are the commands whose flags have keys in the settings file, below the command's name,
// and variables, such as DELAYBRIDGE_BRIDGE_LEASE.
func Sections() []string { return []string{"bridge", "consume"} }

// Given is what a flag of a command was set to, other than on the command line.
type Given struct {
	Texts  []string // one, or the elements of a list
	Source string
	Joined bool // Texts is one text, in which there are commas between the elements of a list
}

// SectionVariable returns the environment variable for a flag of a command.
func SectionVariable(command, flag string) string { return variable(command + "-" + flag) }

// Section returns what the environment, and otherwise the file, have for the flags of a command.
// The error is that of the file, or names keys that are not among flags.
func (s Sources) Section(command string, flags []string) (map[string]Given, error) {
	s = s.whole()
	f, err := s.file()
	if err != nil {
		return nil, err
	}
	given := map[string]Given{}
	for key, texts := range f.sections[command] {
		if !slices.Contains(flags, key) {
			return nil, fmt.Errorf("%s: %s: unknown key %q: use %s", f.path, command, key, strings.Join(flags, ", "))
		}
		given[key] = Given{texts, "file " + f.path, false}
	}
	for _, flag := range flags {
		name := SectionVariable(command, flag)
		if text, ok := s.LookupEnv(name); ok {
			given[flag] = Given{[]string{text}, "environment " + name, true}
		}
	}
	return given, nil
}
