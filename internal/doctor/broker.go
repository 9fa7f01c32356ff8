package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/delaybridge/delaybridge/internal/printable"
)

// version is a major and a minor number.
type version struct{ major, minor int }

func (v version) compare(w version) int {
	return cmp.Or(cmp.Compare(v.major, w.major), cmp.Compare(v.minor, w.minor))
}

// parseVersion reads the beginning of 3.10.8, 4.3.6-rc.1 and their like.
func parseVersion(text string) (v version, ok bool) {
	m := regexp.MustCompile(`^(\d+)\.(\d+)`).FindStringSubmatch(text)
	if m == nil {
		return version{}, false
	}
	v.major, _ = strconv.Atoi(m[1])
	v.minor, _ = strconv.Atoi(m[2])
	return v, true
}

// The versions of RabbitMQ that delaybridge is tested on.
func oldestBroker() version { return version{3, 10} }
func newestBroker() version { return version{4, 3} }

func (x *examination) brokerVersion(ctx context.Context) ([]Finding, error) {
	var overview struct {
		Version string `json:"rabbitmq_version"`
		Node    string `json:"node"`
	}
	if err := x.Management.Get(ctx, "overview", &overview); err != nil {
		return nil, err
	}
	return judgeBrokerVersion(overview.Node, overview.Version), nil
}

func judgeBrokerVersion(node, found string) []Finding {
	v, ok := parseVersion(found)
	if ok && v.compare(oldestBroker()) >= 0 && v.compare(newestBroker()) <= 0 {
		return nil
	}
	f := find(brokerVersion, "node "+node, "RabbitMQ "+found, "rabbitmqctl version")
	if ok && v.compare(oldestBroker()) < 0 {
		f.Severity, f.Means, f.Do = Problem, "it has no at-least-once dead-lettering: tiers cannot be created, or lose messages", "upgrade RabbitMQ"
	}
	return []Finding{f}
}

func (x *examination) featureFlags(ctx context.Context) (findings []Finding, err error) {
	var flags []struct {
		Name      string `json:"name"`
		State     string `json:"state"`
		Stability string `json:"stability"`
	}
	if err := x.Management.Get(ctx, "feature-flags", &flags); err != nil {
		// RabbitMQ before 4.0 shows them to administrators only.
		if lacking := x.tagged(tagAdministrator); lacking != nil && isRefusal(err) {
			return nil, lacking
		}
		return nil, err
	}
	for _, f := range flags {
		if f.State == "disabled" && f.Stability != "experimental" {
			findings = append(findings, find(featureFlagOff, "feature flag "+f.Name, f.Stability+", "+f.State, "rabbitmqctl enable_feature_flag "+printable.Shell(f.Name)))
		}
	}
	return findings, nil
}

// node is what the API says of one.
type node struct {
	Name       string   `json:"name"`
	Running    bool     `json:"running"`
	Memory     bool     `json:"mem_alarm"`
	Disk       bool     `json:"disk_free_alarm"`
	MemUsed    int64    `json:"mem_used"`
	MemLimit   int64    `json:"mem_limit"`
	DiskFree   int64    `json:"disk_free"`
	DiskLimit  int64    `json:"disk_free_limit"`
	Partitions []string `json:"partitions"`

	Applications []application `json:"applications"`
}

type application struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// losesWhenParted are releases of RabbitMQ whose quorum queues may lose what they have confirmed when a cluster is
// parted: their logs diverge (release notes of 4.0.8).
var losesWhenParted = regexp.MustCompile(`^4\.0\.[0-7]$`)

// loses is the finding of a node of a cluster of such a release.
func (n node) loses(all []node) (findings []Finding) {
	for _, a := range n.Applications {
		if a.Name == "rabbit" && len(all) > 1 && losesWhenParted.MatchString(a.Version) {
			f := find(brokerVersion, "node "+n.Name, "RabbitMQ "+a.Version+", in a cluster", "rabbitmqctl version -n "+printable.Shell(n.Name))
			f.Means, f.Do = "when the network parts the nodes, a quorum queue may lose messages that it has confirmed, or stand still", "upgrade RabbitMQ to 4.0.8 or later"
			findings = append(findings, f)
		}
	}
	return findings
}

func (x *examination) nodes(ctx context.Context) (findings []Finding, err error) {
	if err := x.tagged(tagMonitoring); err != nil {
		return nil, err
	}
	var nodes []node
	if err := x.Management.Get(ctx, "nodes", &nodes); err != nil {
		return nil, err
	}
	for _, n := range nodes {
		findings = append(findings, n.judge(nodes)...)
	}
	if x.blind {
		err = errors.New("without statistics the management API shows neither alarms nor partitions")
	}
	return findings, err
}

// allSeen fails where the node that is asked does not see one of its cluster, and so none
// of the consumers that are connected to that.
func (x *examination) allSeen(ctx context.Context) error {
	var nodes []node
	if err := x.Management.Get(ctx, "nodes", &nodes); err != nil {
		return err
	}
	for _, n := range nodes {
		if !n.Running {
			return fmt.Errorf("it may be connected to node %s, which is cut off or not running", n.Name)
		}
	}
	return nil
}

// judge judges a node of a cluster. One that others have lost sight of is named by them.
func (n node) judge(all []node) (findings []Finding) {
	subject, on := "node "+n.Name, " -n "+printable.Shell(n.Name)
	if !n.Running {
		if slices.ContainsFunc(all, func(other node) bool { return slices.Contains(other.Partitions, n.Name) }) {
			return nil
		}
		return []Finding{find(nodeDown, subject, "not running, or cut off from the node that was asked", "rabbitmq-diagnostics cluster_status", "systemctl start rabbitmq-server")}
	}
	if n.Memory {
		findings = append(findings, find(brokerAlarm, subject,
			fmt.Sprintf("memory alarm: %s used, the limit is %s", bytes(n.MemUsed), bytes(n.MemLimit)), "rabbitmqctl set_vm_memory_high_watermark 0.6"+on))
	}
	if n.Disk {
		findings = append(findings, find(brokerAlarm, subject,
			fmt.Sprintf("disk alarm: %s free, the limit is %s", bytes(n.DiskFree), bytes(n.DiskLimit)), "rabbitmqctl set_disk_free_limit 50MB"+on))
	}
	findings = append(findings, n.loses(all)...)
	if len(n.Partitions) > 0 {
		findings = append(findings, find(partition, subject, "does not see "+strings.Join(n.Partitions, ", "), "rabbitmq-diagnostics cluster_status", "systemctl restart rabbitmq-server"))
	}
	return findings
}

// bytes writes a number of bytes for people.
func bytes(n int64) string {
	const unit = 1000
	size, units := float64(n), []string{"B", "kB", "MB", "GB", "TB"}
	for len(units) > 1 && size >= unit {
		size, units = size/unit, units[1:]
	}
	return strconv.FormatFloat(size, 'f', 1, 64) + " " + units[0]
}

// What docs/operations.md recommends, and what RabbitMQ has without it.
const (
	prefetchName, prefetchWanted, prefetchDefault = "dead_letter_worker_consumer_prefetch", 1000, 32
	confirmName, confirmWanted, confirmDefault    = "dead_letter_worker_publisher_confirm_timeout", 10_000, 180_000
)

// askDeadLetters has a node print the settings of all nodes, one line each. Neither AMQP
// nor the management API shows them, of no version.
const askDeadLetters = `[io:format("~s ~b ~b~n", [N, rpc:call(N, application, get_env, [rabbit, ` + prefetchName + `, 32]), ` +
	`rpc:call(N, application, get_env, [rabbit, ` + confirmName + `, 180000])]) || N <- [node() | nodes()]], ok.`

func (x *examination) deadLetterSettings(ctx context.Context) (findings []Finding, err error) {
	if len(x.RabbitMQCtl) == 0 {
		return []Finding{find(deadLetterUnseen, "RabbitMQ", "shown by neither AMQP nor the management API",
			"rabbitmqctl eval "+printable.Shell("{application:get_env(rabbit, "+prefetchName+"), application:get_env(rabbit, "+confirmName+")}."))}, nil
	}
	args := append(slices.Clone(x.RabbitMQCtl[1:]), "eval", askDeadLetters)
	output, err := exec.CommandContext(ctx, x.RabbitMQCtl[0], args...).CombinedOutput() //nolint:gosec // the user named the program
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(x.RabbitMQCtl, " "), err, strings.TrimSpace(string(output)))
	}
	said := 0
	for line := range strings.Lines(string(output)) {
		words := strings.Fields(line)
		if len(words) != 3 {
			continue
		}
		prefetch, err := strconv.Atoi(words[1])
		confirm, err2 := strconv.Atoi(words[2])
		if err != nil || err2 != nil {
			continue
		}
		said++
		set := func(name string, value int) string {
			return fmt.Sprintf("rabbitmqctl -n %s eval %s", printable.Shell(words[0]), printable.Shell(fmt.Sprintf("application:set_env(rabbit, %s, %d).", name, value)))
		}
		if prefetch < prefetchWanted {
			findings = append(findings, find(deadLetterFew, "node "+words[0], fmt.Sprintf("%s is %d, want %d (the default is %d)", prefetchName, prefetch, prefetchWanted, prefetchDefault), set(prefetchName, prefetchWanted)))
		}
		if confirm > confirmWanted {
			findings = append(findings, find(deadLetterSlow, "node "+words[0], fmt.Sprintf("%s is %d ms, want %d (the default is %d)", confirmName, confirm, confirmWanted, confirmDefault), set(confirmName, confirmWanted)))
		}
	}
	if said == 0 {
		return nil, fmt.Errorf("%s printed %q, and not what was asked for", strings.Join(x.RabbitMQCtl, " "), strings.TrimSpace(string(output)))
	}
	return findings, nil
}
