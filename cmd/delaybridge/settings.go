package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/spf13/pflag"

	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// config is what the settings come to once they are all read.
type config struct {
	amqpURL, managementURL, redisURL string
	topology                         *topology.Topology
	described                        topology.Config // what topology was made from
	connectTimeout                   time.Duration
	dedupeWindow                     time.Duration
	remember, tombstones             time.Duration
	logLevel                         slog.Level
	logFormat                        string
}

// setting is one row of the table of settings. Its flag is --key, its
// environment variable DELAYBRIDGE_KEY, and its name in a file key.
type setting struct {
	key, fallback, usage string
}

func (s setting) env() string {
	return "DELAYBRIDGE_" + strings.ToUpper(strings.ReplaceAll(s.key, "-", "_"))
}

var tableOfSettings = [...]setting{
	{"amqp-url", "amqp://guest:guest@localhost:5672/", "RabbitMQ, as an AMQP URI"},
	{"management-url", "http://guest:guest@localhost:15672", "RabbitMQ's management API"},
	{"redis-url", "redis://localhost:6379/0", "Redis: redis:// or rediss://, user:password@host:port/db; a cluster: ?addr=host:port for each further node; Sentinel: ?master_name=name"},
	{"prefix", topology.DefaultPrefix, "start of the name of every exchange, queue and Redis key"},
	{"tiers", ttlList(topology.DefaultTiers()), "TTLs of the tiers, comma-separated"},
	{"lead", topology.TTLName(topology.DefaultLead), "how long before its due time a message may be promoted"},
	{"shards", strconv.Itoa(topology.DefaultShards), "shards in Redis and lanes per tier; the same for all bridges and producers"},
	{"entries", "", "entry exchanges beside the default one, comma-separated, each with the type of its ready exchange: NAME=direct|topic|fanout|headers, and +tracked where all of its messages are to go through Redis"},
	{"default-entry", amqp.ExchangeTopic, "type of the default entry's ready exchange, topic, or topic+tracked where all of its messages are to go through Redis"},
	{"dedupe-window", "0s", "how long after it was published an ID is remembered, so that a second message with it is told from the first; the same for all bridges and publishers"},
	{"remember", durationText(redisbridge.DefaultRemember), "how long Redis knows of a message that it was delivered"},
	{"tombstones", durationText(redisbridge.DefaultTombstones), "how long it is known of a message that it was cancelled or rescheduled, from when it is due: so long its queue may stand still; the same for all bridges, publishers and consumers"},
	{"connect-timeout", "15s", "how long to wait for a server at the start; bridge and consumer wait as long as it takes once they work"},
	{"log-level", "info", "debug, info, warn or error"},
	{"log-format", "text", "text or json"},
}

// settings finds the value of each setting: flag, then environment, then file,
// then default.
type settings struct {
	lookupEnv func(string) (string, bool)
	flags     *pflag.FlagSet
	file      string
}

func newSettings(lookupEnv func(string) (string, bool)) *settings {
	return &settings{lookupEnv: lookupEnv}
}

func (s *settings) register(flags *pflag.FlagSet) {
	s.flags = flags
	flags.StringVar(&s.file, "config", "", "YAML file with settings (environment: DELAYBRIDGE_CONFIG)")
	for _, setting := range tableOfSettings {
		flags.String(setting.key, setting.fallback, fmt.Sprintf("%s (environment: %s)", setting.usage, setting.env()))
	}
}

// value is a setting's value and where it came from.
type value struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

func (s *settings) values() ([]value, error) {
	path, source := s.file, "flag --config"
	if env, ok := s.lookupEnv("DELAYBRIDGE_CONFIG"); ok && path == "" {
		path, source = env, "environment DELAYBRIDGE_CONFIG"
	}
	file, err := readSettings(path)
	if err != nil {
		return nil, usage(fmt.Errorf("%s: %w", source, err))
	}
	values := make([]value, 0, len(tableOfSettings))
	for _, setting := range tableOfSettings {
		v := value{Key: setting.key, Value: setting.fallback, Source: "default"}
		if text, ok := file[setting.key]; ok {
			v.Value, v.Source = text, "file "+path
		}
		if text, ok := s.lookupEnv(setting.env()); ok {
			v.Value, v.Source = text, "environment "+setting.env()
		}
		if flag := s.flags.Lookup(setting.key); flag.Changed {
			v.Value, v.Source = flag.Value.String(), "flag --"+setting.key
		}
		values = append(values, v)
	}
	return values, nil
}

// readSettings reads a settings file. An unknown key is an error.
func readSettings(path string) (map[string]string, error) {
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
	texts := map[string]string{}
	for key, v := range raw {
		if !slices.ContainsFunc(tableOfSettings[:], func(s setting) bool { return s.key == key }) {
			return nil, fmt.Errorf("%s: unknown key %q; 'delaybridge config show' lists the known ones", path, key)
		}
		switch v := v.(type) {
		case []any:
			parts := make([]string, len(v))
			for i, part := range v {
				parts[i] = fmt.Sprint(part)
			}
			texts[key] = strings.Join(parts, ",")
		case map[string]any, nil:
			return nil, fmt.Errorf("%s: %s: want a value or a list of values", path, key)
		default:
			texts[key] = fmt.Sprint(v)
		}
	}
	return texts, nil
}

// config reads and checks every setting. The error names all faults at once.
func (s *settings) config() (config, error) {
	values, err := s.values()
	if err != nil {
		return config{}, err
	}
	var c config
	var tc topology.Config
	var faults []error
	for _, v := range values {
		if err := c.set(&tc, v); err != nil {
			faults = append(faults, fmt.Errorf("%s (from %s): %w", v.Key, v.Source, err))
		}
	}
	if len(faults) == 0 {
		if c.topology, err = topology.New(tc); err != nil {
			faults = append(faults, err)
		}
	}
	c.described = tc
	if err := errors.Join(faults...); err != nil {
		return config{}, usage(err)
	}
	return c, nil
}

func (c *config) set(tc *topology.Config, v value) (err error) {
	switch v.Key {
	case "amqp-url":
		c.amqpURL = v.Value
	case "management-url":
		c.managementURL = v.Value
	case "redis-url":
		c.redisURL = v.Value
	case "prefix":
		tc.Prefix = v.Value
	case "tiers":
		for text := range strings.SplitSeq(v.Value, ",") {
			ttl, err := parseDuration(strings.TrimSpace(text))
			if err != nil {
				return err
			}
			tc.Tiers = append(tc.Tiers, ttl)
		}
	case "lead":
		tc.Lead, err = parseDuration(v.Value)
	case "shards":
		if tc.Shards, err = strconv.Atoi(v.Value); err != nil {
			return fmt.Errorf("%q is not a number", v.Value)
		}
	case "entries":
		tc.Entries, err = parseEntries(v.Value)
	case "default-entry":
		kind, tracked := cutTracked(v.Value)
		if tc.Tracked = tracked; kind != amqp.ExchangeTopic {
			return fmt.Errorf("%q: use topic or topic+tracked", v.Value)
		}
	case "dedupe-window":
		if c.dedupeWindow, err = parseDuration(v.Value); err == nil && c.dedupeWindow < 0 {
			return fmt.Errorf("%q: must not be negative", v.Value)
		}
	case "remember":
		if c.remember, err = parseDuration(v.Value); err == nil && c.remember < time.Millisecond {
			return fmt.Errorf("%q: must be longer than 0", v.Value)
		}
	case "tombstones":
		if c.tombstones, err = parseDuration(v.Value); err == nil && c.tombstones < time.Millisecond {
			return fmt.Errorf("%q: must be longer than 0", v.Value)
		}
	case "connect-timeout":
		c.connectTimeout, err = parseDuration(v.Value)
	case "log-level":
		if err := c.logLevel.UnmarshalText([]byte(v.Value)); err != nil {
			return fmt.Errorf("%q: use debug, info, warn or error", v.Value)
		}
	case "log-format":
		if c.logFormat = v.Value; v.Value != "text" && v.Value != "json" {
			return fmt.Errorf("%q: use text or json", v.Value)
		}
	}
	return err
}

// parseEntries reads what is written orders=direct,audit=fanout+tracked. The error names
// all that cannot be read; whether names and types will do is for the topology.
func parseEntries(text string) ([]topology.Entry, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var entries []topology.Entry
	var faults []error
	for part := range strings.SplitSeq(text, ",") {
		name, kind, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok || name == "" {
			faults = append(faults, fmt.Errorf("%q: write NAME=TYPE, such as orders=direct", part))
			continue
		}
		kind, tracked := cutTracked(kind)
		entries = append(entries, topology.Entry{Name: name, Kind: kind, Tracked: tracked})
	}
	return entries, errors.Join(faults...)
}

// cutTracked takes the word apart that says of which type an entry is.
func cutTracked(text string) (kind string, tracked bool) { return strings.CutSuffix(text, "+tracked") }

// durationText writes a duration as people do, and as parseDuration reads it.
func durationText(d time.Duration) string { return topology.TTLName(d) }

func ttlList(ttls []time.Duration) string {
	names := make([]string, len(ttls))
	for i, ttl := range ttls {
		names[i] = topology.TTLName(ttl)
	}
	return strings.Join(names, ",")
}
