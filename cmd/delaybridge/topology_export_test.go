package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/definitions"
)

// What RabbitMQ makes of the definitions is tested in topology, and what its operator makes of the resources
// in charts.
func TestTopologyExport(t *testing.T) {
	t.Parallel()
	vars := map[string]string{"DELAYBRIDGE_AMQP_URL": "amqp://user:password@127.0.0.1:1/shop", "DELAYBRIDGE_TIERS": "1s,30m"}
	code, out, said := runIn(t, vars, "topology", "export")
	if code != cli.ExitOK || said != "" {
		t.Fatalf("exit code %d: %s", code, said)
	}
	var d definitions.Definitions
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Queues) == 0 || d.Queues[0].VHost != "shop" {
		t.Errorf("got queues %+v", d.Queues)
	}

	code, out, said = runIn(t, vars, "topology", "export", "--format", "crd", "--cluster", "rabbitmq")
	if code != cli.ExitOK || said != "" {
		t.Fatalf("exit code %d: %s", code, said)
	}
	kinds, kept := map[string]int{}, 0
	for document := range strings.SplitSeq(out, "---\n") {
		var r struct {
			Kind string `json:"kind"`
			Spec struct {
				DeletionPolicy string `json:"deletionPolicy"`
			} `json:"spec"`
		}
		if err := yaml.Unmarshal([]byte(document), &r); err != nil {
			t.Fatalf("%v:\n%s", err, document)
		}
		kinds[r.Kind]++
		if r.Kind == "Queue" && r.Spec.DeletionPolicy == "retain" {
			kept++
		}
	}
	if kinds["Exchange"] != len(d.Exchanges) || kinds["Queue"] != len(d.Queues) || kinds["Binding"] != len(d.Bindings) {
		t.Errorf("got %v, want %d, %d and %d", kinds, len(d.Exchanges), len(d.Queues), len(d.Bindings))
	}
	if kept != len(d.Queues) {
		t.Errorf("%d of %d queues outlive their resource", kept, len(d.Queues))
	}
}

func TestTopologyExportUsage(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"--format yaml": `--format "yaml": use definitions or crd`,
		"--format crd":  "--cluster is missing: name the RabbitmqCluster, or with --connection-secret",
		"--format crd --cluster a --connection-secret b": "exclude each other: leave one out",
		"--format crd --cluster A":                       `--cluster "A": use lower-case letters`,
		"--format crd --connection-secret B":             `--connection-secret "B": use lower-case letters`,
		"--cluster a":                                    "mean nothing with --format definitions",
		"--amqp-url nonsense":                            "amqp-url: AMQP scheme must be",
		"more":                                           `for "delaybridge topology export"`,
	} {
		code, out, said := runIn(t, nil, append([]string{"topology", "export"}, strings.Fields(line)...)...)
		if code != cli.ExitUsage || out != "" || !strings.Contains(said, want) {
			t.Errorf("%s: exit code %d, %q; want %d and %q", line, code, said, cli.ExitUsage, want)
		}
	}
}

// Helm packs no links, so the chart has a copy.
func TestChartHasTheAlertRules(t *testing.T) {
	t.Parallel()
	const chart = repository + "/charts/delaybridge/files/alerts.yml"
	copied, err := os.ReadFile(chart)
	if err != nil {
		t.Fatal(err)
	}
	if string(copied) != read(t, observability+"alerts.yml") {
		t.Errorf("%s differs from %salerts.yml: copy that over it", chart, observability)
	}
}
