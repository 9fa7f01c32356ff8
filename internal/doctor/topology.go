package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/topology"
)

// topology turns what verify finds into findings, one for all that is missing and one
// for each policy.
func (x *examination) topology(ctx context.Context) ([]Finding, error) {
	drifts, err := x.Topology.Verify(ctx, x.Management)
	if err != nil {
		return nil, err
	}
	var findings []Finding
	var missing, unseen []string
	var left []topology.Drift
	overridden := map[policyRef][]topology.Drift{}
	var order []policyRef
	policies, policyErr := x.policies(ctx, drifts)
	held, err := x.held(ctx, drifts)
	if err != nil {
		return nil, err
	}
	for _, d := range drifts {
		subject := d.Kind + " " + d.Name
		switch {
		case d.Missing():
			missing = append(missing, subject)
		case d.Field == "statistics":
			unseen = append(unseen, d.Name)
		case d.Policy != "" || d.OperatorPolicy != "":
			for _, ref := range policies.responsible(d) {
				if overridden[ref] == nil {
					order = append(order, ref)
				}
				overridden[ref] = append(overridden[ref], d)
			}
		case d.Field == "consumers":
			f, err := x.tierConsumed(ctx, d.Name)
			if err != nil {
				return findings, err
			}
			findings = append(findings, f)
		case d.Kind == "binding":
			command := "delaybridge topology apply" // which removes what a tracked entry has left
			if d.Path != "" {
				command = x.remove(d.Path)
			}
			findings = append(findings, find(foreignBinding, subject, "bound by "+d.Found, command))
		case d.Surplus():
			left = append(left, d)
		default:
			f := find(topologyDiffers, subject, fmt.Sprintf("%s is %s, want %s", d.Field, d.Found, d.Expected)+held.note(d), x.deletion(d, held)...)
			if len(f.Commands) > 0 {
				f.Commands = append(f.Commands, "delaybridge topology apply")
			}
			findings = append(findings, f)
		}
	}
	if len(missing) > 0 {
		findings = append(findings, missed(missing))
	}
	if len(left) > 0 {
		var names []string
		for _, d := range left {
			names = append(names, d.Kind+" "+d.Name)
		}
		findings = append(findings, find(topologyLeftover, some(names), fmt.Sprintf("not in this configuration: %d", len(left))+held.note(left...), "delaybridge topology prune"))
	}
	if len(unseen) > 0 && !x.blind { // which is a finding of its own
		findings = append(findings, find(statisticsOff, "queue "+some(unseen), fmt.Sprintf("queues without statistics: %d", len(unseen)),
			"rabbitmqctl list_queues "+x.on()+" name state online"))
	}
	for _, ref := range order {
		findings = append(findings, x.overridden(ref, policies, overridden[ref]))
	}
	return findings, policyErr
}

// missing looks over AMQP for what is not there. Whether what is there differs, and what
// policies make of it, only the management API tells.
func (x *examination) missing(ctx context.Context) ([]Finding, error) {
	changes, err := x.Topology.Plan(ctx, channels{ctx, x.conn})
	findings, err := x.denied(err)
	var missing []string
	for _, c := range changes {
		missing = append(missing, c.Kind+" "+c.Name)
	}
	if len(missing) > 0 {
		findings = append(findings, missed(missing))
	}
	return findings, err
}

func missed(missing []string) Finding {
	return find(topologyMissing, some(missing), fmt.Sprintf("missing: %d", len(missing)), "delaybridge topology apply")
}

// holdings are how many messages queues hold, by the management API's statistics.
type holdings map[string]*int

// held counts where a drift is about a queue.
func (x *examination) held(ctx context.Context, drifts []topology.Drift) (holdings, error) {
	if !slices.ContainsFunc(drifts, func(d topology.Drift) bool { return d.Kind == "queue" }) {
		return nil, nil
	}
	queues, err := x.queues(ctx)
	h := holdings{}
	for name, q := range queues {
		h[name] = q.Messages
	}
	return h, err
}

// note says how many messages there are in the queues that drifts are about.
func (h holdings) note(drifts ...topology.Drift) string {
	queues, messages := 0, 0
	for _, d := range drifts {
		if d.Kind != "queue" {
			continue
		}
		n := h[d.Name]
		if n == nil {
			return "; messages: " + count(n)
		}
		queues++
		messages += *n
	}
	if queues == 0 {
		return ""
	}
	return "; messages: " + count(&messages) + ", by statistics up to ten seconds old"
}

// deletion is the command that deletes what d is about. There is none for a queue that
// may hold messages.
func (x *examination) deletion(d topology.Drift, held holdings) []string {
	if d.Kind != "queue" {
		return []string{x.remove("exchanges/{vhost}/" + pathSegment(d.Name))}
	}
	if n := held[d.Name]; n == nil || *n > 0 {
		return nil
	}
	return []string{"rabbitmqctl delete_queue " + x.on() + " " + printable.Shell(d.Name)}
}

// policyRef names a policy.
type policyRef struct {
	operator bool
	name     string
}

func (r policyRef) String() string {
	if r.operator {
		return "operator policy " + r.name
	}
	return "policy " + r.name
}

type policy struct {
	Name       string          `json:"name"`
	Pattern    string          `json:"pattern"`
	ApplyTo    string          `json:"apply-to"`
	Priority   json.Number     `json:"priority"`
	Definition json.RawMessage `json:"definition"`
}

func (p policy) sets(field string) bool {
	var definition map[string]json.RawMessage
	return json.Unmarshal(p.Definition, &definition) == nil && definition[field] != nil
}

type policies map[policyRef]policy

// policies reads what they say, where a drift comes from one.
func (x *examination) policies(ctx context.Context, drifts []topology.Drift) (policies, error) {
	all := policies{}
	if !slices.ContainsFunc(drifts, func(d topology.Drift) bool { return d.Policy != "" || d.OperatorPolicy != "" }) {
		return all, nil
	}
	var errs []error
	for _, operator := range []bool{false, true} {
		var list []policy
		path := map[bool]string{false: "policies/{vhost}", true: "operator-policies/{vhost}"}[operator]
		errs = append(errs, x.Management.Get(ctx, path, &list))
		for _, p := range list {
			all[policyRef{operator, p.Name}] = p
		}
	}
	return all, errors.Join(errs...)
}

// responsible returns the policies that a drift may come from.
func (p policies) responsible(d topology.Drift) (refs []policyRef) {
	for _, ref := range []policyRef{{false, d.Policy}, {true, d.OperatorPolicy}} {
		known, there := p[ref]
		if ref.name != "" && (!there || known.sets(d.Field)) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// overridden is the finding for one policy. Its command keeps the policy for all but
// the bridge's queues, unless it is for them alone.
func (x *examination) overridden(ref policyRef, all policies, drifts []topology.Drift) Finding {
	var queues, fields []string
	for _, d := range drifts {
		if !slices.Contains(queues, d.Name) {
			queues = append(queues, d.Name)
		}
		if field := fmt.Sprintf("%s %s instead of %s", d.Field, d.Found, d.Expected); !slices.Contains(fields, field) {
			fields = append(fields, field)
		}
	}
	word := "policy"
	if ref.operator {
		word = "operator_policy"
	}
	command := "rabbitmqctl clear_" + word + " " + x.on() + " " + printable.Shell(ref.name)
	if p, known := all[ref]; known && !strings.Contains(strings.ReplaceAll(p.Pattern, `\`, ""), x.Topology.Prefix()) {
		without := `^(?!` + regexp.QuoteMeta(x.Topology.Prefix()+".") + `)(?=.*(?:` + p.Pattern + `))`
		priority := p.Priority.String()
		if priority == "" {
			priority = "0"
		}
		command = strings.Join([]string{
			"rabbitmqctl set_" + word, x.on(), "--priority", priority, "--apply-to", printable.Shell(p.ApplyTo),
			printable.Shell(ref.name), printable.Shell(without), printable.Shell(string(p.Definition)),
		}, " ")
	}
	return find(policyOverrides, ref.String(), some(fields)+" for queue "+some(queues), command)
}

// tierConsumed names the consumers of a queue that must have none.
func (x *examination) tierConsumed(ctx context.Context, name string) (Finding, error) {
	f := find(tierConsumed, "queue "+name, "it has a consumer", "rabbitmqctl list_consumers "+x.on())
	consumers, err := x.consumers(ctx)
	if err != nil {
		if lacking := new(lackingTag); errors.As(err, lacking) {
			err = nil
		}
		return f, err
	}
	for _, c := range consumers {
		if c.Queue.Name == name {
			f.Found = fmt.Sprintf("consumer %s of user %s, connection %s", c.Tag, c.Channel.User, c.Channel.Connection)
			f.Commands = []string{x.closing(c)}
		}
	}
	return f, nil
}

// closing is the command that closes a consumer's connection.
func (x *examination) closing(c consumer) string {
	return x.remove("connections/" + pathSegment(c.Channel.Connection))
}
