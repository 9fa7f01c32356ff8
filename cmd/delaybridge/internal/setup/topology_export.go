package setup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/definitions"
)

// formatCRD is the format of resources for Kubernetes.
const formatCRD = "crd"

func newTopologyExportCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export [--format definitions|crd]",
		Short: "Print the exchanges and queues for others to create",
		Long: `Prints the exchanges, queues and bindings for those who give no configure rights, and
create them by themselves. No server is asked, and nothing is changed. The virtual host is
that of amqp-url. Policies are not among them: none are needed.

With --format definitions it prints JSON for 'rabbitmqctl import_definitions', or for
/api/definitions of the management API. The virtual host has to be there.
With --format crd it prints Exchanges, Queues and Bindings (rabbitmq.com/v1beta1), as YAML, for
RabbitMQ's messaging-topology-operator 1.17 or later. Deleting such a Queue leaves the queue, and
what is in it, at the broker.

Creating them again changes nothing, and removes nothing that an earlier configuration has
left: 'delaybridge topology verify' shows that, and 'topology prune' removes it.`,
		Example: `  delaybridge topology export > topology.json && rabbitmqctl import_definitions topology.json
  delaybridge topology export --format crd --cluster rabbitmq | kubectl apply -f -`,
		Args: cli.UsageArgs(cobra.NoArgs),
	}
	var format string
	var ref clusterReference
	cmd.Flags().StringVar(&format, "format", formatDefinitions, "definitions or crd")
	cmd.Flags().StringVar(&ref.Name, "cluster", "", "for crd: name of the RabbitmqCluster, in the same namespace")
	cmd.Flags().StringVar(&ref.secret, "connection-secret", "", "for crd, instead of --cluster: name of the Secret by which the operator reaches a broker that is no RabbitmqCluster")
	cmd.RunE = func(*cobra.Command, []string) error {
		settings, err := a.Settings.Config()
		if err != nil {
			return err
		}
		uri, err := broker.ParseURI(settings.AMQPURL)
		if err != nil {
			return cli.Usage(fmt.Errorf("amqp-url: %w", err))
		}
		if err := ref.check(format); err != nil {
			return cli.Usage(err)
		}
		d := definitions.Of(settings.Topology, uri.Vhost)
		if format == formatDefinitions {
			return cli.PrintJSON(a.Out, d)
		}
		text, err := resourcesOf(d, ref)
		if err != nil {
			return err
		}
		_, err = a.Out.Write(text)
		return err
	}
	return cmd
}

// clusterReference tells the operator which broker it is about: Name or ConnectionSecret.
type clusterReference struct {
	Name             string           `json:"name,omitempty"`
	ConnectionSecret *secretReference `json:"connectionSecret,omitempty"`
	secret           string
}

type secretReference struct {
	Name string `json:"name"`
}

// check refuses what the operator would refuse, and what would not be used.
func (r *clusterReference) check(format string) error {
	switch {
	case format != formatDefinitions && format != formatCRD:
		return fmt.Errorf("--format %q: use definitions or crd", format)
	case format == formatDefinitions && r.Name+r.secret != "":
		return errors.New("--cluster and --connection-secret mean nothing with --format definitions: leave them out, or use --format crd")
	case format == formatDefinitions:
		return nil
	case r.Name == "" && r.secret == "":
		return errors.New("--cluster is missing: name the RabbitmqCluster, or with --connection-secret the Secret of another broker")
	case r.Name != "" && r.secret != "":
		return errors.New("--cluster and --connection-secret exclude each other: leave one out")
	}
	for flag, name := range map[string]string{"--cluster": r.Name, "--connection-secret": r.secret} {
		if name != "" && !resourceName.MatchString(name) {
			return fmt.Errorf("%s %q: use lower-case letters, digits, '-' and '.'", flag, name)
		}
	}
	if r.secret != "" {
		r.ConnectionSecret = &secretReference{r.secret}
	}
	return nil
}

// operatorResource is one of the messaging-topology-operator.
type operatorResource struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Metadata   metadata     `json:"metadata"`
	Spec       resourceSpec `json:"spec"`
}

type metadata struct {
	Name string `json:"name"`
}

// resourceSpec has the fields of all three kinds, each of which uses its own.
type resourceSpec struct {
	Name            string           `json:"name,omitempty"`
	VHost           string           `json:"vhost"`
	Type            string           `json:"type,omitempty"`
	Durable         bool             `json:"durable,omitempty"`
	Source          string           `json:"source,omitempty"`
	Destination     string           `json:"destination,omitempty"`
	DestinationType string           `json:"destinationType,omitempty"`
	RoutingKey      string           `json:"routingKey,omitempty"`
	Arguments       map[string]any   `json:"arguments,omitempty"`
	DeletionPolicy  string           `json:"deletionPolicy,omitempty"`
	Cluster         clusterReference `json:"rabbitmqClusterReference"`
}

// resourcesOf writes a YAML document for each entity.
func resourcesOf(d definitions.Definitions, ref clusterReference) ([]byte, error) {
	var all []operatorResource
	add := func(kind, name string, spec resourceSpec) {
		spec.Cluster = ref
		all = append(all, operatorResource{"rabbitmq.com/v1beta1", kind, metadata{resourceNameOf(name)}, spec})
	}
	for _, x := range d.Exchanges {
		add("Exchange", x.Name, resourceSpec{Name: x.Name, VHost: x.VHost, Type: x.Type, Durable: x.Durable, Arguments: x.Arguments})
	}
	for _, q := range d.Queues {
		// Messages are in them: a resource that is deleted by mistake must not take these along.
		add("Queue", q.Name, resourceSpec{
			Name: q.Name, VHost: q.VHost, Type: "quorum", Durable: q.Durable, Arguments: q.Arguments, DeletionPolicy: "retain",
		})
	}
	for _, b := range d.Bindings {
		add("Binding", b.Source+".to."+b.DestinationType+"."+b.Destination, resourceSpec{
			Source: b.Source, VHost: b.VHost, Destination: b.Destination, DestinationType: b.DestinationType,
			RoutingKey: b.RoutingKey, Arguments: b.Arguments,
		})
	}
	text := []byte("# For release 1.17 or later of RabbitMQ's messaging-topology-operator.\n")
	for _, r := range all {
		document, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		if document, err = yaml.JSONToYAML(document); err != nil {
			return nil, err
		}
		text = append(append(text, "---\n"...), document...)
	}
	return text, nil
}

// notInLabels matches what Kubernetes does not take in the part of a name between two dots.
var notInLabels = regexp.MustCompile(`[^a-z0-9]+`)

// resourceNameOf makes a name that Kubernetes takes. One that had to be changed ends in a hash of what it
// was, so that no two are the same.
func resourceNameOf(name string) string {
	const most, hashed = 253, 8 // Kubernetes' limit, and characters of the hash
	if len(name) <= most && resourceName.MatchString(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	text := notInLabels.ReplaceAllString(strings.ToLower(name), "-")
	if longest := most - 1 - hashed; len(text) > longest {
		text = text[:longest]
	}
	return strings.TrimSuffix(text, "-") + "-" + hex.EncodeToString(sum[:])[:hashed]
}
