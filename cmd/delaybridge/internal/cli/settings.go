package cli

import (
	"fmt"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/internal/secretfile"
	"github.com/delaybridge/delaybridge/internal/settings"
)

// Config is what the settings come to.
type Config = settings.Settings

// Settings reads the settings of a command line.
type Settings struct {
	LookupEnv func(string) (string, bool) // the environment
	flags     *pflag.FlagSet
	file      string
	context   string
	logger    func(Config) *slog.Logger // warns of files that others may read
}

// NewSettings returns settings that take the environment from lookupEnv.
func NewSettings(lookupEnv func(string) (string, bool)) *Settings {
	return &Settings{LookupEnv: lookupEnv}
}

// Register adds a flag for each setting that all commands have. logger makes the log that warns.
func (s *Settings) Register(flags *pflag.FlagSet, logger func(Config) *slog.Logger) {
	s.flags, s.logger = flags, logger
	flags.StringVar(&s.file, "config", "", fmt.Sprintf("YAML file with settings (environment: %s)", settings.FileVariable))
	flags.StringVar(&s.context, "context", "", fmt.Sprintf("name of a set of settings in delaybridge/contexts.yaml of your folder of settings, in place of file and environment (environment: %s)", settings.ContextVariable))
	for _, setting := range settings.All() {
		AddSetting(flags, setting)
	}
}

// AddSetting adds the flags of a setting: for its value, and for the file that has it.
func AddSetting(flags *pflag.FlagSet, setting settings.Setting) {
	flags.String(setting.Key, setting.Default, fmt.Sprintf("%s (environment: %s)", setting.Usage, setting.Env()))
	if file := (settings.Setting{Key: setting.FileKey()}); file.Key != "" {
		flags.String(file.Key, "", fmt.Sprintf("file with the value of --%s (environment: %s)", setting.Key, file.Env()))
	}
}

// Sources are where settings come from.
func (s *Settings) Sources() settings.Sources { return s.sourcesWith(s.flags) }

func (s *Settings) sourcesWith(flags *pflag.FlagSet) settings.Sources {
	return settings.Sources{
		LookupEnv: s.LookupEnv, File: s.file, FileFrom: "flag --config", Context: s.context,
		Flag: func(key string) (string, bool) {
			flag := flags.Lookup(key)
			return flag.Value.String(), flag.Changed
		},
	}
}

// Values returns each setting with its source.
func (s *Settings) Values() ([]settings.Value, error) {
	values, err := s.Sources().Values()
	if err != nil {
		return nil, Usage(err)
	}
	return values, nil
}

// Config reads and checks every setting.
func (s *Settings) Config() (Config, error) {
	c, err := s.Sources().Read()
	if err != nil {
		return Config{}, Usage(err)
	}
	for _, path := range c.Exposed {
		secretfile.Warn(s.logger(c), path)
	}
	return c, nil
}

// SayTarget tells people, before something is removed, where: on a terminal, and always with a
// context, whose name does not say.
func (a *App) SayTarget(c Config) {
	if c.Context == "" && !IsTerminal(a.Err) {
		return
	}
	context := ""
	if c.Context != "" {
		context = "context " + c.Context + ": "
	}
	fmt.Fprintf(a.Err, "%sRabbitMQ %s, Redis %s, prefix %s\n",
		printable.Text(context), printable.Text(broker.Redact(c.AMQPURL)), printable.Text(broker.Redact(c.RedisURL)), printable.Text(c.Topology.Prefix()))
}

// Own reads a setting that one command alone has, whose flags are among flags.
func (s *Settings) Own(c Config, flags *pflag.FlagSet, setting settings.Setting) (settings.Value, error) {
	sources := s.sourcesWith(flags)
	v, err := sources.Value(setting)
	if err != nil {
		return v, Usage(err)
	}
	if path, exposed := sources.Exposed(v); exposed && v.File != "" {
		secretfile.Warn(s.logger(c), path)
	}
	return v, nil
}
