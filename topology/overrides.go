package topology

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/delaybridge/delaybridge/topology/internal/rabbitmq"
)

// overrideColumns are what is asked of each queue.
const overrideColumns = "name,arguments,policy,operator_policy,effective_policy_definition"

// Overrides returns what policies and operator policies make of the queues' arguments, where
// that is another thing than the description says: by some of it messages come early, are
// dropped, or are refused. It is a part of [Topology.Verify], and asks for these queues
// alone, however many others there are. What it goes by is up to ten seconds old.
func (t *Topology) Overrides(ctx context.Context, m *Management) ([]Drift, error) {
	var queues []rabbitmq.Queue
	if err := m.Queues(ctx, `^`+regexp.QuoteMeta(t.prefix)+`\.`, overrideColumns, &queues); err != nil {
		return nil, fmt.Errorf("topology: look for policies: %w", err)
	}
	found := map[string]rabbitmq.Queue{}
	for _, q := range queues {
		found[q.Name] = q
	}
	var drifts []Drift
	for _, q := range t.Queues() {
		drifts = append(drifts, q.overrides(found[q.Name])...)
	}
	return drifts, nil
}

// Overridden sums up what [Topology.Overrides] has found, on one line.
func (t *Topology) Overridden(drifts []Drift) string {
	var by, fields, queues []string
	add := func(list *[]string, text string) {
		if text != "" && !slices.Contains(*list, text) {
			*list = append(*list, text)
		}
	}
	for _, d := range drifts {
		if d.Policy != "" {
			add(&by, fmt.Sprintf("policy %q", d.Policy))
		}
		if d.OperatorPolicy != "" {
			add(&by, fmt.Sprintf("operator policy %q", d.OperatorPolicy))
		}
		add(&fields, d.Field+" "+d.Found+" instead of "+d.Expected)
		add(&queues, d.Name)
	}
	const most = 3
	more := ""
	if len(fields) > most {
		fields, more = fields[:most], fmt.Sprintf(" and %d more", len(fields)-most)
	}
	return fmt.Sprintf("%s: %s%s, queues: %d", strings.Join(by, " or "), strings.Join(fields, ", "), more, len(queues))
}
