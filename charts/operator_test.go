package charts_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"k8s.io/apimachinery/pkg/util/validation"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// operator is the release of RabbitMQ's messaging-topology-operator whose resource definitions the exported
// resources are held against. They are generated from its Go types, which need a controller-runtime that
// Helm does not build with.
const operator = "github.com/rabbitmq/messaging-topology-operator@v1.14.2"

// newer are fields that later releases have added: deletionPolicy came with 1.17.
var newer = map[string]any{"deletionPolicy": "retain"} //nolint:gochecknoglobals // a constant

// schemas returns what the API server goes by, for each kind. It is strict: a field that there is not is
// an error, not dropped.
func schemas(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", operator).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	byKind := map[string]*jsonschema.Schema{}
	for _, plural := range []string{"exchanges", "queues", "bindings", "users", "permissions"} {
		text, err := os.ReadFile(filepath.Join(module.Dir, "config/crd/bases/rabbitmq.com_"+plural+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var definition struct {
			Spec struct {
				Group    string
				Names    struct{ Kind string }
				Versions []struct {
					Name   string
					Schema struct{ OpenAPIV3Schema map[string]any }
				}
			}
		}
		if err := yaml.Unmarshal(text, &definition); err != nil {
			t.Fatal(err)
		}
		version := definition.Spec.Versions[0]
		strict(version.Schema.OpenAPIV3Schema)
		compiler := jsonschema.NewCompiler()
		if err := compiler.AddResource("crd:"+plural, version.Schema.OpenAPIV3Schema); err != nil {
			t.Fatal(err)
		}
		schema, err := compiler.Compile("crd:" + plural)
		if err != nil {
			t.Fatal(err)
		}
		byKind[definition.Spec.Group+"/"+version.Name+" "+definition.Spec.Names.Kind] = schema
	}
	return byKind
}

func strict(schema any) {
	switch schema := schema.(type) {
	case map[string]any:
		if _, ok := schema["properties"].(map[string]any); ok && schema["x-kubernetes-preserve-unknown-fields"] == nil {
			schema["additionalProperties"] = false
		}
		for _, part := range schema {
			strict(part)
		}
	case []any:
		for _, part := range schema {
			strict(part)
		}
	}
}

// resource is what the operator makes an entity from.
type resource struct {
	APIVersion, Kind string
	Metadata         struct{ Name string }
	Spec             map[string]any
}

// resources reads YAML documents, and holds each against its schema.
func resources(t *testing.T, text []byte) (all []resource) {
	t.Helper()
	byKind := schemas(t)
	names := map[string]bool{}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		var r resource
		var whole map[string]any
		if err := errors.Join(yaml.UnmarshalStrict(document, &r), yaml.UnmarshalStrict(document, &whole)); err != nil {
			t.Fatalf("%v:\n%s", err, document)
		}
		if r.Kind == "" {
			continue // a comment
		}
		spec, _ := whole["spec"].(map[string]any)
		for field, value := range newer {
			if r.Kind == "Queue" && spec[field] != value {
				t.Errorf("queue %s has %s %v, want %v", r.Metadata.Name, field, spec[field], value)
			}
			delete(spec, field)
		}
		schema := byKind[r.APIVersion+" "+r.Kind]
		if schema == nil {
			t.Fatalf("unknown type:\n%s", document)
		}
		if err := schema.Validate(whole); err != nil {
			t.Errorf("%v:\n%s", err, document)
		}
		for _, wrong := range validation.IsDNS1123Subdomain(r.Metadata.Name) {
			t.Errorf("%s %s: %s", r.Kind, r.Metadata.Name, wrong)
		}
		if key := r.Kind + " " + r.Metadata.Name; names[key] {
			t.Errorf("%s is there twice", key)
		} else {
			names[key] = true
		}
		all = append(all, r)
	}
}

// entities are as definitions have them: those of RabbitMQ's own format, and those that the operator would
// make of resources, which takes numbers for floats.
type entities struct{ Exchanges, Queues, Bindings []map[string]any }

func entitiesOf(t *testing.T, all []resource) (e entities) {
	t.Helper()
	for _, r := range all {
		entity := map[string]any{}
		for from, to := range map[string]string{
			"name": "name", "vhost": "vhost", "source": "source", "destination": "destination",
			"destinationType": "destination_type", "arguments": "arguments", "durable": "durable",
		} {
			if value, ok := r.Spec[from]; ok {
				entity[to] = value
			}
		}
		if entity["arguments"] == nil {
			entity["arguments"] = map[string]any{}
		}
		switch r.Kind {
		case "Exchange":
			entity["type"], entity["auto_delete"], entity["internal"] = r.Spec["type"], false, false
			e.Exchanges = append(e.Exchanges, entity)
		case "Queue":
			if arguments, _ := entity["arguments"].(map[string]any); arguments["x-queue-type"] != r.Spec["type"] {
				t.Errorf("queue %v has two types", entity["name"])
			}
			entity["auto_delete"] = false
			e.Queues = append(e.Queues, entity)
		case "Binding":
			entity["routing_key"] = ""
			if key, ok := r.Spec["routingKey"]; ok {
				entity["routing_key"] = key
			}
			e.Bindings = append(e.Bindings, entity)
		}
	}
	return e
}

// What the operator makes of the exported resources is what a broker makes of the exported definitions, and
// that is what 'topology apply' makes: topology/definitions_test.go.
func TestTopologyExportsForTheOperator(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string][]string{
		"by default":                          nil,
		"entries":                             {"--entries", "orders=direct,audit=fanout+tracked", "--amqp-url", "amqp://u:p@rabbit/shop"},
		"names that Kubernetes does not take": {"--prefix", "Shop_1..a-.B", "--entries", "Orders_=direct,orders-=direct"},
		"long names":                          {"--prefix", strings.Repeat("p", 100), "--entries", strings.Repeat("e", 100) + "=topic," + strings.Repeat("e", 99) + "=topic"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, ref := range []map[string]any{
				{"name": "rabbit"}, {"connectionSecret": map[string]any{"name": "rabbit"}},
			} {
				flag := "--cluster"
				if ref["name"] == nil {
					flag = "--connection-secret"
				}
				all := resources(t, export(t, append([]string{"--format", "crd", flag, "rabbit"}, settings...)...))
				for _, r := range all {
					if !reflect.DeepEqual(r.Spec["rabbitmqClusterReference"], ref) {
						t.Errorf("%s %s is of %v, want %v", r.Kind, r.Metadata.Name, r.Spec["rabbitmqClusterReference"], ref)
					}
				}
				var want entities
				if err := json.Unmarshal(export(t, settings...), &want); err != nil {
					t.Fatal(err)
				}
				if got := entitiesOf(t, all); !reflect.DeepEqual(got, want) || len(got.Queues) == 0 {
					t.Errorf("got\n%v\nwant\n%v", got, want)
				}
			}
		})
	}
}

// So are the resources of a user.
func TestPermissionsExportForTheOperator(t *testing.T) {
	t.Parallel()
	kinds := map[string]int{}
	for _, r := range resources(t, run(t, "permissions", "--role", "bridge", "-o", "kubernetes", "--cluster", "rabbit")) {
		kinds[r.Kind]++
	}
	if want := map[string]int{"User": 1, "Permission": 1}; !maps.Equal(kinds, want) {
		t.Errorf("got %v, want %v", kinds, want)
	}
}

func export(t *testing.T, args ...string) []byte {
	t.Helper()
	return run(t, append([]string{"topology", "export"}, args...)...)
}

func run(t *testing.T, args ...string) []byte {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = []string{"HOME=/nonexistent"}
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		t.Fatalf("%v: %s", err, exit.Stderr)
	}
	return out
}
