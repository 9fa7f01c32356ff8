package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/internal/secretfile"
)

// Tags of a user of the management API. An administrator has all of them.
const (
	tagMonitoring    = "monitoring"
	tagAdministrator = "administrator"
)

// lackingTag says that the management API would answer, and show nothing, or a part.
type lackingTag struct {
	user, tag string
}

func (e lackingTag) Error() string {
	return fmt.Sprintf("the management API shows this only to users with the tag %s, which %q has not", e.tag, e.user)
}

// whoAmI returns the tags of the user who asks.
func (x *examination) whoAmI(ctx context.Context) ([]string, error) {
	var me struct {
		Tags tags `json:"tags"`
	}
	err := x.Management.Get(ctx, "whoami", &me)
	if err == nil {
		// Whether the user may see the virtual host as well.
		var any json.RawMessage
		err = x.Management.Get(ctx, "exchanges/{vhost}", &any)
	}
	return me.Tags, err
}

// switchStatisticsOn starts the management plugin anew, with statistics. That interrupts
// the API and the UI for a second, and nothing else.
const switchStatisticsOn = `rabbitmqctl eval 'application:set_env(rabbitmq_management_agent, disable_metrics_collector, false), ` +
	`application:set_env(rabbitmq_management, disable_management_stats, false), ` +
	`[application:stop(A) || A <- [rabbitmq_management, rabbitmq_management_agent]], ` +
	`[ok = application:start(A) || A <- [rabbitmq_management_agent, rabbitmq_management]], ok.'`

// statisticsOff reports whether the plugin was told to keep no statistics, or to show
// none. Then it knows neither numbers of messages nor consumers, connections and alarms.
func (x *examination) statisticsOff(ctx context.Context) (bool, error) {
	var overview struct {
		Off bool `json:"disable_stats"`
	}
	err := x.Management.Get(ctx, "overview", &overview)
	return overview.Off, err
}

// tags are a list, or one string with commas on older brokers.
type tags []string

func (t *tags) UnmarshalJSON(text []byte) error {
	var list []string
	if json.Unmarshal(text, &list) == nil {
		*t = list
		return nil
	}
	var one string
	if err := json.Unmarshal(text, &one); err != nil {
		return err
	}
	*t = strings.FieldsFunc(one, func(r rune) bool { return r == ',' || r == ' ' })
	return nil
}

// tagged fails where the user has neither tag nor administrator. Without monitoring
// the API leaves out what belongs to others, and does not say so.
func (x *examination) tagged(tag string) error {
	if slices.Contains(x.tags, tag) || slices.Contains(x.tags, tagAdministrator) {
		return nil
	}
	return lackingTag{x.Management.User(), tag}
}

// queue is what the API says of a queue. Numbers and policies are up to ten seconds old,
// and absent at first.
type queue struct {
	Name            string         `json:"name"`
	State           string         `json:"state"`
	Arguments       map[string]any `json:"arguments"`
	EffectivePolicy map[string]any `json:"effective_policy_definition"`
	Policy          string         `json:"policy"`
	OperatorPolicy  string         `json:"operator_policy"`
	Consumers       int            `json:"consumers"`
	Messages        *int           `json:"messages"`
	Ready           *int           `json:"messages_ready"`
	Unacknowledged  *int           `json:"messages_unacknowledged"`
	Bytes           *int           `json:"message_bytes"`
}

// queues are listed by one check at a time: of many queues that costs the broker.
func (x *examination) queues(ctx context.Context) (map[string]queue, error) {
	x.listing.Lock()
	defer x.listing.Unlock()
	var list []queue
	err := x.Management.Get(ctx, "queues/{vhost}", &list)
	byName := map[string]queue{}
	for _, q := range list {
		byName[q.Name] = q
	}
	return byName, err
}

type binding struct {
	Source          string         `json:"source"`
	Destination     string         `json:"destination"`
	DestinationType string         `json:"destination_type"`
	RoutingKey      string         `json:"routing_key"`
	PropertiesKey   string         `json:"properties_key"`
	Arguments       map[string]any `json:"arguments"`
}

// consumer is one of a queue, of whatever program.
type consumer struct {
	Tag     string `json:"consumer_tag"`
	Channel struct {
		Connection string `json:"connection_name"`
		User       string `json:"user"`
	} `json:"channel_details"`
	Queue struct {
		Name string `json:"name"`
	} `json:"queue"`
}

// consumers of the virtual host; the user needs the tag monitoring.
func (x *examination) consumers(ctx context.Context) (list []consumer, err error) {
	if err := x.tagged(tagMonitoring); err != nil {
		return nil, err
	}
	return list, x.Management.Get(ctx, "consumers/{vhost}", &list)
}

// on returns -p and the virtual host.
func (x *examination) on() string { return "-p " + printable.Shell(x.vhost()) }

// managementName and managementUser are empty without a management API.
func (x *examination) managementName() string {
	if x.Management == nil {
		return ""
	}
	return x.Management.String()
}

func (x *examination) managementUser() string {
	if x.Management == nil {
		return ""
	}
	return x.Management.User()
}

// remove is the command that deletes what the management API has at path.
func (x *examination) remove(path string) string {
	return "curl -u USER -X DELETE " + printable.Shell(x.Management.Address(path))
}

// amqpUser is the user of the bridge.
func (x *examination) amqpUser() string {
	uri, err := broker.ParseURI(x.AMQPURL)
	if err != nil {
		return ""
	}
	return uri.Username
}

// amqpAddress is the URL of the bridge, which may be in a file.
func (x *examination) amqpAddress() string {
	address, err := secretfile.Resolve(x.AMQPURL)
	if err != nil {
		return ""
	}
	return address
}

// vhost is the virtual host of the bridge.
func (x *examination) vhost() string {
	uri, err := broker.ParseURI(x.AMQPURL)
	if err != nil {
		return ""
	}
	return uri.Vhost
}

// again waits a while before a second look.
func again(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
