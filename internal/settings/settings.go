// Package settings reads what the command and a service with a [delaybridge.Client] have in
// common: flags, environment and a YAML file say the same things in the same words.
package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/defaults"
	"github.com/delaybridge/delaybridge/internal/secretfile"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// Settings are all of them, read and checked.
type Settings struct {
	AMQPURL, ManagementURL, RedisURL string
	Topology                         *topology.Topology
	Described                        topology.Config // what Topology was made from
	ConnectTimeout                   time.Duration
	DedupeWindow                     time.Duration
	Remember, Tombstones             time.Duration
	QuarantineRetention              time.Duration
	UnroutedRetention                time.Duration
	WaitReplicas                     int
	Quotas                           map[string]redisbridge.Quota // by entry
	LogLevel                         slog.Level
	LogFormat                        string // text or json
	// Exposed are the files of URLs that others may read.
	Exposed []string
	// Context is the name of the context that was chosen; empty for none.
	Context string
}

// Setting is one of them. Its flag is --Key, its environment variable DELAYBRIDGE_KEY, and its
// name in a file Key.
type Setting struct {
	Key, Default, Usage string
}

// Env returns the name of the environment variable.
func (s Setting) Env() string { return variable(s.Key) }

func variable(key string) string {
	return "DELAYBRIDGE_" + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
}

// FileKey is the key of the setting that names a file with the value in it. Only URLs have one,
// since there are passwords in them; for others it is empty.
func (s Setting) FileKey() string {
	if strings.HasSuffix(s.Key, "-url") {
		return s.Key + "-file"
	}
	return ""
}

// FileVariable is the environment variable that names the file.
const FileVariable = "DELAYBRIDGE_CONFIG"

// All returns every setting, in the order of the documentation.
func All() []Setting { return slices.Clone(all[:]) }

func keys() (keys []string) {
	for _, setting := range all {
		keys = append(keys, setting.Key)
	}
	for _, setting := range all {
		if key := setting.FileKey(); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

var all = [...]Setting{
	{"amqp-url", "amqp://guest:guest@localhost:5672/", "RabbitMQ, as an AMQP URI"},
	{"management-url", "http://guest:guest@localhost:15672", "RabbitMQ's management API"},
	{"redis-url", "redis://localhost:6379/0", "Redis: redis:// or rediss://, user:password@host:port/db; a cluster: ?addr=host:port for each further node; Sentinel: ?master_name=name"},
	{"prefix", topology.Defaults().Prefix, "start of the name of every exchange, queue and Redis key"},
	{"tiers", ttlList(topology.Defaults().Tiers), "TTLs of the tiers, comma-separated"},
	{"lead", wire.TTLName(topology.Defaults().Lead), "how long before its due time a message may be promoted"},
	{"shards", strconv.Itoa(topology.Defaults().Shards), "shards in Redis and lanes per tier; the same for all bridges and producers"},
	{"entries", "", "entry exchanges beside the default one, comma-separated, each with the type of its ready exchange: NAME=direct|topic|fanout|headers, and +tracked where all of its messages are to go through Redis"},
	{"default-entry", amqp.ExchangeTopic, "type of the default entry's ready exchange, topic, or topic+tracked where all of its messages are to go through Redis"},
	{"quotas", "", "most that Redis takes of entries, comma-separated: NAME=LIMIT+LIMIT, each limit of messages:N, bytes:SIZE (stored), delay:DURATION or body:SIZE, with sizes such as 64KiB or 1GiB; the same for all bridges and publishers"},
	{"default-quota", "", "the same for the default entry: LIMIT+LIMIT"},
	{"dedupe-window", "0s", "how long after it was published an ID is remembered, so that a second message with it is told from the first; the same for all bridges and publishers"},
	{"remember", durationText(defaults.Remember), "how long Redis knows of a message that it was delivered"},
	{"tombstones", durationText(defaults.Tombstones), "how long it is known of a message that it was cancelled or rescheduled, from when it is due: so long its queue may stand still; the same for all bridges, publishers and consumers"},
	{"quarantine-retention", "0s", "how long messages stay in quarantine; a bridge removes what was there for longer, each with a line in the log; 0s is for ever"},
	{"unrouted-retention", "0s", "the same for the unrouted queue"},
	{"redis-wait-replicas", "0", "how many replicas of Redis must have what is parked, cancelled or rescheduled before that succeeds"},
	{"connect-timeout", "15s", "how long to wait for a server at the start; bridge and consumer wait as long as it takes once they work"},
	{"log-level", "info", "debug, info, warn or error"},
	{"log-format", "text", "text or json"},
}

// Sources are where the value of a setting may come from: flag, then environment, then file,
// then, for what can be in a file of its own, systemd's credential of that name, then default.
type Sources struct {
	// LookupEnv reads a variable, as os.LookupEnv does. Nil is an empty environment.
	LookupEnv func(string) (string, bool)
	// Flag reads a flag that was given, by its name. Nil is none.
	Flag func(key string) (string, bool)
	// File is a YAML file, and FileFrom who named it. Empty is that of FileVariable, or none.
	File, FileFrom string
	// Context is the name of a set of settings in the file of contexts, which takes the place of
	// the settings file and, except for logs and patience, of the environment. Empty is that of
	// ContextVariable, or none.
	Context string
}

// Value is a setting's value and where it came from.
type Value struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Source string `json:"source"`
	// File is the file that has the value, where it was named by FileKey or is a credential.
	// Value then is its file:// URL.
	File string `json:"-"`
}

func (s Sources) whole() Sources {
	if s.LookupEnv == nil {
		s.LookupEnv = func(string) (string, bool) { return "", false }
	}
	if s.Flag == nil {
		s.Flag = func(string) (string, bool) { return "", false }
	}
	return s
}

// Values returns the value of each setting. The error is that of the file, or names the
// settings that are given in two forms.
func (s Sources) Values() ([]Value, error) {
	s = s.whole()
	file, err := s.file()
	if err != nil {
		return nil, err
	}
	context, err := s.context()
	if err != nil {
		return nil, err
	}
	values := make([]Value, 0, len(all))
	var faults []error
	for _, setting := range all {
		v, err := s.value(setting, file, context)
		faults, values = append(faults, err), append(values, v)
		if context != nil && err == nil && v.Value == "" && (setting.Key == "amqp-url" || setting.Key == "redis-url") {
			faults = append(faults, fmt.Errorf("context %s has no %s: add it, or %s, or give --%s", context.Name, setting.Key, setting.FileKey(), setting.Key))
		}
	}
	return values, errors.Join(faults...)
}

// Value returns the value of a setting that is not one of All, and in no settings file.
func (s Sources) Value(setting Setting) (Value, error) {
	return s.whole().value(setting, file{}, nil)
}

// level is one of the sources of a setting.
type level struct {
	name   func(key string) string
	lookup func(key string) (string, bool)
}

// levels are the sources of a setting; the later ones win. A context describes an installation
// as a whole: what it leaves out is not taken from the environment or the file, where another
// installation's settings may be.
func (s Sources) levels(setting Setting, f file, c *Context) []level {
	in := func(values map[string]string) func(string) (string, bool) {
		return func(key string) (string, bool) { text, ok := values[key]; return text, ok }
	}
	ofFile := level{func(string) string { return "file " + f.path }, in(f.values)}
	ofEnvironment := level{
		func(key string) string { return "environment " + variable(key) },
		func(key string) (string, bool) { return s.LookupEnv(variable(key)) },
	}
	ofFlag := level{func(key string) string { return "flag --" + key }, s.Flag}
	if c == nil {
		return []level{ofFile, ofEnvironment, ofFlag}
	}
	ofContext := level{func(string) string { return "context " + c.Name }, in(c.values)}
	if ofPerson(setting.Key) {
		return []level{ofContext, ofEnvironment, ofFlag}
	}
	return []level{ofContext, ofFlag}
}

func (s Sources) value(setting Setting, f file, c *Context) (Value, error) {
	v := Value{Key: setting.Key, Value: setting.Default, Source: "default"}
	fileKey := setting.FileKey()
	if directory, ok := s.LookupEnv(secretfile.CredentialsVariable); ok && directory != "" && fileKey != "" && c == nil {
		path := filepath.Join(directory, setting.Key)
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			v.Value, v.Source, v.File = secretfile.URL(path), "credential "+setting.Key, path
		}
	}
	if c != nil && fileKey != "" {
		v.Value, v.Source = "", "context "+c.Name // names its servers itself, or there are none
	}
	for _, from := range s.levels(setting, f, c) {
		text, given := from.lookup(setting.Key)
		if given {
			v.Value, v.Source, v.File = text, from.name(setting.Key), ""
		}
		if fileKey == "" {
			continue
		}
		switch path, named := from.lookup(fileKey); {
		case named && given:
			return v, fmt.Errorf("%s and %s exclude each other, and both are given (%s): leave one out", setting.Key, fileKey, from.name(fileKey))
		case named && path == "":
			return v, fmt.Errorf("%s (from %s) is empty: name a file, or leave it out", fileKey, from.name(fileKey))
		case named:
			v.Value, v.Source, v.File = secretfile.URL(path), from.name(fileKey), path
		}
	}
	return v, nil
}

// Exposed reports whether others may read the file that a value is in.
func (s Sources) Exposed(v Value) (path string, exposed bool) {
	path, ok := secretfile.Path(v.Value)
	credentials, _ := s.whole().LookupEnv(secretfile.CredentialsVariable)
	return path, ok && secretfile.Exposed(path, credentials)
}

// Read reads and checks every setting. The error names all faults at once.
func (s Sources) Read() (Settings, error) {
	values, err := s.Values()
	if err != nil {
		return Settings{}, err
	}
	name, err := s.whole().contextName()
	if err != nil {
		return Settings{}, err
	}
	c := Settings{Context: name.text}
	var tc topology.Config
	var faults []error
	for _, v := range values {
		if err := c.set(&tc, v); err != nil {
			faults = append(faults, fmt.Errorf("%s (from %s): %w", v.Key, v.Source, err))
		}
		if path, exposed := s.Exposed(v); exposed && !slices.Contains(c.Exposed, path) {
			c.Exposed = append(c.Exposed, path)
		}
	}
	if len(faults) == 0 {
		if c.Topology, err = topology.New(tc); err != nil {
			faults = append(faults, err)
		}
	}
	if c.Topology != nil {
		for _, entry := range slices.Sorted(maps.Keys(c.Quotas)) {
			if !c.Topology.HasEntry(entry) {
				faults = append(faults, fmt.Errorf("quotas: there is no entry %q: list it in entries, or leave it out", entry))
			}
		}
	}
	c.Described = tc
	if err := errors.Join(faults...); err != nil {
		return Settings{}, err
	}
	return c, nil
}

func (c *Settings) set(tc *topology.Config, v Value) (err error) {
	switch v.Key {
	case "amqp-url":
		c.AMQPURL = v.Value
		err = checkURL(v.Value)
	case "management-url":
		c.ManagementURL = v.Value
		err = checkURL(v.Value)
	case "redis-url":
		c.RedisURL = v.Value
		err = checkURL(v.Value)
	case "prefix":
		tc.Prefix = v.Value
	case "tiers":
		for text := range strings.SplitSeq(v.Value, ",") {
			ttl, err := wire.ParseDuration(strings.TrimSpace(text))
			if err != nil {
				return err
			}
			tc.Tiers = append(tc.Tiers, ttl)
		}
	case "lead":
		tc.Lead, err = wire.ParseDuration(v.Value)
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
	case "quotas":
		err = c.parseQuotas(v.Value)
	case "default-quota":
		err = c.parseQuota("", v.Value)
	case "dedupe-window":
		if c.DedupeWindow, err = wire.ParseDuration(v.Value); err == nil && c.DedupeWindow < 0 {
			return fmt.Errorf("%q: must not be negative", v.Value)
		}
	case "remember":
		if c.Remember, err = wire.ParseDuration(v.Value); err == nil && c.Remember < time.Millisecond {
			return fmt.Errorf("%q: must be longer than 0", v.Value)
		}
	case "tombstones":
		if c.Tombstones, err = wire.ParseDuration(v.Value); err == nil && c.Tombstones < time.Millisecond {
			return fmt.Errorf("%q: must be longer than 0", v.Value)
		}
	case "quarantine-retention":
		if c.QuarantineRetention, err = wire.ParseDuration(v.Value); err == nil && c.QuarantineRetention < 0 {
			return fmt.Errorf("%q: must not be negative; 0s is for ever", v.Value)
		}
	case "unrouted-retention":
		if c.UnroutedRetention, err = wire.ParseDuration(v.Value); err == nil && c.UnroutedRetention < 0 {
			return fmt.Errorf("%q: must not be negative; 0s is for ever", v.Value)
		}
	case "redis-wait-replicas":
		if c.WaitReplicas, err = strconv.Atoi(v.Value); err != nil || c.WaitReplicas < 0 {
			return fmt.Errorf("%q: use 0, or the number of replicas of each primary", v.Value)
		}
	case "connect-timeout":
		c.ConnectTimeout, err = wire.ParseDuration(v.Value)
	case "log-level":
		if err := c.LogLevel.UnmarshalText([]byte(v.Value)); err != nil {
			return fmt.Errorf("%q: use debug, info, warn or error", v.Value)
		}
	case "log-format":
		if c.LogFormat = v.Value; v.Value != "text" && v.Value != "json" {
			return fmt.Errorf("%q: use text or json", v.Value)
		}
	}
	return err
}
