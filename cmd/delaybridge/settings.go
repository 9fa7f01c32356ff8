package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/delaybridge/delaybridge/internal/settings"
)

// config is what the settings come to.
type config = settings.Settings

// flagSettings reads the settings of a command line.
type flagSettings struct {
	lookupEnv func(string) (string, bool)
	flags     *pflag.FlagSet
	file      string
}

func newSettings(lookupEnv func(string) (string, bool)) *flagSettings {
	return &flagSettings{lookupEnv: lookupEnv}
}

func (s *flagSettings) register(flags *pflag.FlagSet) {
	s.flags = flags
	flags.StringVar(&s.file, "config", "", fmt.Sprintf("YAML file with settings (environment: %s)", settings.FileVariable))
	for _, setting := range settings.All() {
		flags.String(setting.Key, setting.Default, fmt.Sprintf("%s (environment: %s)", setting.Usage, setting.Env()))
	}
}

func (s *flagSettings) sources() settings.Sources {
	return settings.Sources{
		LookupEnv: s.lookupEnv, File: s.file, FileFrom: "flag --config",
		Flag: func(key string) (string, bool) {
			flag := s.flags.Lookup(key)
			return flag.Value.String(), flag.Changed
		},
	}
}

// values returns each setting with its source.
func (s *flagSettings) values() ([]settings.Value, error) {
	values, err := s.sources().Values()
	if err != nil {
		return nil, usage(err)
	}
	return values, nil
}

// config reads and checks every setting.
func (s *flagSettings) config() (config, error) {
	c, err := s.sources().Read()
	if err != nil {
		return config{}, usage(err)
	}
	return c, nil
}
