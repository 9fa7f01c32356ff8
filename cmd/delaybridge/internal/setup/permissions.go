package setup

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/internal/roles"
)

// Output formats of permissions.
const (
	formatCommands    = "commands"
	formatDefinitions = "definitions"
	formatKubernetes  = "kubernetes"
)

func newPermissionsCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "permissions --role ROLE [--entry NAME]... [--queue NAME]... [--user NAME]",
		Short: "Print the permissions that a user needs on RabbitMQ and in Redis",
		Long: `Prints the commands that make a user with the permissions of a role, on RabbitMQ and in
Redis, and no others: replace PASSWORD in them. No server is asked, and nothing is changed.
With -o definitions it prints the permissions alone, for 'rabbitmqctl import_definitions'.
With -o kubernetes and --cluster it prints a User and a Permission, as YAML, for RabbitMQ's
messaging-topology-operator, and nothing for Redis.

The roles:

  publisher  publishes to entry exchanges, and parks in Redis
  bridge     runs bridges, which put the topology in place, and back
  consumer   consumes the queues of --queue, asks Redis about messages, and parks retries
  operator   looks at everything, and replays what is in quarantine, also to the queues
             of --queue
  relay      sends what services put into their outbox

docs/permissions.md says what each role may not do.`,
		Example: `  delaybridge permissions --role publisher --entry orders
  delaybridge permissions --role consumer --queue billing --user billing > make-user.sh
  delaybridge permissions --role bridge -o kubernetes --cluster rabbitmq | kubectl apply -f -`,
		Args: cli.UsageArgs(cobra.NoArgs),
	}
	var role, user, cluster string
	var scope roles.Scope
	flags := cmd.Flags()
	flags.StringVar(&role, "role", "", "publisher, bridge, consumer, operator or relay (required)")
	flags.StringArrayVar(&scope.Entries, "entry", nil, "for a publisher, a consumer or a relay: one of the setting entries, or '' for the default one; may be repeated (default: the default one, and for a relay all)")
	flags.StringArrayVar(&scope.Queues, "queue", nil, "for a consumer: a queue that it consumes; for an operator: one to replay to; may be repeated")
	flags.StringVar(&user, "user", "", "name of the user (default: prefix and role, such as delaybridge-publisher)")
	flags.StringVar(&cluster, "cluster", "", "for -o kubernetes: name of the RabbitmqCluster, in the same namespace")
	format := cli.OutputFlag(cmd, formatCommands, formatDefinitions, formatKubernetes)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		settings, err := a.Settings.Config()
		if err != nil {
			return err
		}
		if role == "" {
			return cli.Usage(errors.New("--role is missing: use publisher, bridge, consumer, operator or relay"))
		}
		rights, err := roles.Of(roles.Role(role), settings.Topology, scope)
		if err != nil {
			return cli.Usage(asFlags(err))
		}
		uri, err := broker.ParseURI(settings.AMQPURL)
		if err != nil {
			return cli.Usage(err)
		}
		switch {
		case user == "" && cmd.Flags().Changed("user"):
			return cli.Usage(errors.New(`--user "": name a user, or leave it out`))
		case strings.ContainsAny(user, " \t\r\n\x00"): // Redis takes no such name
			return cli.Usage(fmt.Errorf("--user %q: use a name without blanks", user))
		case user == "":
			user = settings.Topology.Prefix() + "-" + role
		}
		g := grant{roles.Role(role), user, uri.Vhost, rights}
		if err := g.check(*format, cluster); err != nil {
			return cli.Usage(err)
		}
		switch *format {
		case formatDefinitions:
			return g.definitions(a)
		case formatKubernetes:
			_, err = a.Out.Write([]byte(g.resources(cluster)))
		default:
			_, err = a.Out.Write([]byte(g.commands()))
		}
		return err
	}
	return cmd
}

// asFlags names flags in each line of an error that begins with what they are called.
func asFlags(err error) error {
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = "--" + line
	}
	return errors.New(strings.Join(lines, "\n"))
}

// grant is what a user is to be given.
type grant struct {
	role        roles.Role
	user, vhost string
	rights      roles.Rights
}

// resourceName is what Kubernetes takes for the name of a resource.
var resourceName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)

// check refuses names that Kubernetes would refuse, and a cluster that would not be used.
func (g grant) check(format, cluster string) error {
	const rule = "with -o kubernetes use lower-case letters, digits, '-' and '.'"
	switch {
	case format != formatKubernetes && cluster != "":
		return fmt.Errorf("--cluster %q: only with -o kubernetes", cluster)
	case format != formatKubernetes:
		return nil
	case cluster == "":
		return errors.New("--cluster is missing: name the RabbitmqCluster")
	case !resourceName.MatchString(cluster):
		return fmt.Errorf("--cluster %q: %s", cluster, rule)
	case !resourceName.MatchString(g.user):
		return fmt.Errorf("--user %q: %s", g.user, rule)
	}
	return nil
}

// resources are those of the messaging-topology-operator. It takes the user's name from a
// Secret; without one it makes up a name. Go's quotes are YAML's, too.
func (g grant) resources(cluster string) string {
	tags := ""
	if g.rights.Tag != "" {
		tags = fmt.Sprintf("  tags: [%q]\n", g.rights.Tag)
	}
	return fmt.Sprintf(`# The user's name and password come from a Secret: replace PASSWORD.
# kubectl create secret generic %[1]s --from-literal=username=%[1]s --from-literal=password=PASSWORD
# What is for Redis is printed without -o kubernetes.
apiVersion: rabbitmq.com/v1beta1
kind: User
metadata:
  name: %[1]q
spec:
%[2]s  importCredentialsSecret:
    name: %[1]q
  rabbitmqClusterReference:
    name: %[3]q
---
apiVersion: rabbitmq.com/v1beta1
kind: Permission
metadata:
  name: %[1]q
spec:
  userReference:
    name: %[1]q
  vhost: %[4]q
  permissions:
    configure: %[5]q
    write: %[6]q
    read: %[7]q
  rabbitmqClusterReference:
    name: %[3]q
`, g.user, tags, cluster, g.vhost, g.rights.Configure, g.rights.Write, g.rights.Read)
}

// commands are lines for a shell.
func (g grant) commands() string {
	var text strings.Builder
	line := func(words ...string) { text.WriteString(strings.Join(words, " ") + "\n") }
	user := printable.Shell(g.user)
	line("# Replace PASSWORD in both places. Where RabbitMQ has the user already, leave add_user out.")
	line("rabbitmqctl add_user", user, "PASSWORD")
	tags := []string{"rabbitmqctl set_user_tags", user}
	if g.rights.Tag != "" {
		tags = append(tags, g.rights.Tag)
	}
	line(tags...)
	line(g.rights.SetPermissions(g.vhost, g.user))
	switch g.role { //nolint:exhaustive // of the others there is nothing to say
	case roles.Bridge:
		line("# To answer commands it needs write on amq.default, too, and may then publish to every queue.")
	case roles.Publisher:
		line("# Redis is for publishers that park: Go clients and 'delaybridge publish'. Others need none.")
	}
	words := []string{"redis-cli ACL SETUSER", user, "reset on '>PASSWORD'"}
	for _, rule := range g.rights.Redis {
		words = append(words, printable.Shell(rule))
	}
	line(words...)
	return text.String()
}

// definitions are what rabbitmqctl imports. A user of this name has to be there.
func (g grant) definitions(a *cli.App) error {
	type permission struct {
		User      string `json:"user"`
		VHost     string `json:"vhost"`
		Configure string `json:"configure"`
		Write     string `json:"write"`
		Read      string `json:"read"`
	}
	return cli.PrintJSON(a.Out, map[string][]permission{
		"permissions": {{g.user, g.vhost, g.rights.Configure, g.rights.Write, g.rights.Read}},
	})
}
