package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/internal/secretfile"
	"github.com/delaybridge/delaybridge/internal/settings"
)

// config is what the settings come to.
type config = settings.Settings

// flagSettings reads the settings of a command line.
type flagSettings struct {
	lookupEnv func(string) (string, bool)
	flags     *pflag.FlagSet
	file      string
	context   string
	logger    func(config) *slog.Logger // warns of files that others may read
}

// newSettings returns settings that take the environment from lookupEnv.
func newSettings(lookupEnv func(string) (string, bool)) *flagSettings {
	return &flagSettings{lookupEnv: lookupEnv}
}

// register adds a flag for each setting that all commands have. logger makes the log that warns.
func (s *flagSettings) register(flags *pflag.FlagSet, logger func(config) *slog.Logger) {
	s.flags, s.logger = flags, logger
	flags.StringVar(&s.file, "config", "", fmt.Sprintf("YAML file with settings (environment: %s)", settings.FileVariable))
	flags.StringVar(&s.context, "context", "", fmt.Sprintf("name of a set of settings in delaybridge/contexts.yaml of your folder of settings, in place of file and environment (environment: %s)", settings.ContextVariable))
	for _, setting := range settings.All() {
		addFlags(flags, setting)
	}
}

// addFlags adds the flags of a setting: for its value, and for the file that has it.
func addFlags(flags *pflag.FlagSet, setting settings.Setting) {
	flags.String(setting.Key, setting.Default, fmt.Sprintf("%s (environment: %s)", setting.Usage, setting.Env()))
	if file := (settings.Setting{Key: setting.FileKey()}); file.Key != "" {
		flags.String(file.Key, "", fmt.Sprintf("file with the value of --%s (environment: %s)", setting.Key, file.Env()))
	}
}

// sources are where settings come from.
func (s *flagSettings) sources() settings.Sources { return s.sourcesWith(s.flags) }

func (s *flagSettings) sourcesWith(flags *pflag.FlagSet) settings.Sources {
	return settings.Sources{
		LookupEnv: s.lookupEnv, File: s.file, FileFrom: "flag --config", Context: s.context,
		Flag: func(key string) (string, bool) {
			flag := flags.Lookup(key)
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
	for _, path := range c.Exposed {
		secretfile.Warn(s.logger(c), path)
	}
	return c, nil
}

// sayTarget tells people, before something is removed, where: on a terminal, and always with a
// context, whose name does not say.
func (a *app) sayTarget(c config) {
	if c.Context == "" && !isTerminal(a.err) {
		return
	}
	context := ""
	if c.Context != "" {
		context = "context " + c.Context + ": "
	}
	fmt.Fprintf(a.err, "%sRabbitMQ %s, Redis %s, prefix %s\n",
		printable.Text(context), printable.Text(broker.Redact(c.AMQPURL)), printable.Text(broker.Redact(c.RedisURL)), printable.Text(c.Topology.Prefix()))
}

// own reads a setting that one command alone has, whose flags are among flags.
func (s *flagSettings) own(c config, flags *pflag.FlagSet, setting settings.Setting) (settings.Value, error) {
	sources := s.sourcesWith(flags)
	v, err := sources.Value(setting)
	if err != nil {
		return v, usage(err)
	}
	if path, exposed := sources.Exposed(v); exposed && v.File != "" {
		secretfile.Warn(s.logger(c), path)
	}
	return v, nil
}
