package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/delaybridge/delaybridge/internal/settings"
)

// FromSettings has the flags of cmd taken from its section of the settings file and from the
// environment, where they are not given.
func (a *App) FromSettings(cmd *cobra.Command) {
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.Settings.fill(cmd); err != nil {
			return Usage(err)
		}
		return nil
	}
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if isSetting(f) {
			f.Usage += fmt.Sprintf(" (environment: %s)", settings.SectionVariable(cmd.Name(), f.Name))
		}
	})
}

// isSetting reports whether a flag may be set other than on the command line. To adopt is to
// consent once, and not at each start.
func isSetting(f *pflag.Flag) bool { return f.Name != "help" && f.Name != "adopt" }

// settingFlags are the names of those of cmd.
func settingFlags(cmd *cobra.Command) (names []string) {
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if isSetting(f) {
			names = append(names, f.Name)
		}
	})
	return names
}

// fill sets the flags of cmd that are not given.
func (s *Settings) fill(cmd *cobra.Command) error {
	given, err := s.Sources().Section(cmd.Name(), settingFlags(cmd))
	if err != nil {
		return err
	}
	for _, name := range settingFlags(cmd) {
		flag := cmd.Flags().Lookup(name)
		value, ok := given[name]
		if !ok || flag.Changed {
			continue
		}
		texts := value.Texts
		_, isList := flag.Value.(pflag.SliceValue)
		switch {
		case isList && value.Joined:
			texts = slices.DeleteFunc(strings.Split(texts[0], ","), func(text string) bool { return text == "" })
		case !isList && len(texts) != 1:
			return fmt.Errorf("%s (from %s): want one value", name, value.Source)
		}
		for _, text := range texts {
			if err := flag.Value.Set(text); err != nil {
				return fmt.Errorf("%s (from %s): %w", name, value.Source, err)
			}
			flag.Changed = true
		}
	}
	return nil
}

// SectionValues are what the flags of the commands under root are set to, where the environment or
// the file do so, as settings named COMMAND.FLAG.
func (s *Settings) SectionValues(root *cobra.Command) (values []settings.Value, err error) {
	for _, name := range settings.Sections() {
		cmd, _, err := root.Find([]string{name})
		if err != nil {
			return nil, err
		}
		given, err := s.Sources().Section(name, settingFlags(cmd))
		if err != nil {
			return nil, Usage(err)
		}
		for _, flag := range settingFlags(cmd) {
			if value, ok := given[flag]; ok {
				values = append(values, settings.Value{Key: name + "." + flag, Value: WithoutSecrets(strings.Join(value.Texts, ",")), Source: value.Source})
			}
		}
	}
	return values, nil
}
