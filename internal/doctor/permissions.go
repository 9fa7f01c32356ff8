package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/printable"
	"github.com/delaybridge/delaybridge/internal/roles"
	"github.com/delaybridge/delaybridge/topology"
)

func pathSegment(name string) string { return url.PathEscape(name) }

// setPermissions is the command that gives the bridge's user what it needs.
func (x *examination) setPermissions() string {
	return roles.OfBridge(x.Topology).SetPermissions(x.vhost(), x.amqpUser())
}

// permissions judges those of the bridge's user.
func (x *examination) permissions(ctx context.Context) ([]Finding, error) {
	user := x.amqpUser()
	var may struct {
		Configure string `json:"configure"`
		Write     string `json:"write"`
		Read      string `json:"read"`
	}
	err := x.Management.Get(ctx, "permissions/{vhost}/"+pathSegment(user), &may)
	if isRefusal(err) {
		// Not even an administrator is told apart from who asks for what is not there.
		if lacking := x.tagged(tagAdministrator); lacking != nil {
			return x.permissionsOverAMQP(ctx, lacking)
		}
	}
	if err != nil {
		return nil, err
	}
	var account struct {
		Tags tags `json:"tags"`
	}
	if err := x.Management.Get(ctx, "users/"+pathSegment(user), &account); err != nil {
		return nil, err
	}
	others, err := x.others(ctx)
	if err != nil {
		return nil, err
	}
	findings, err := judgePermissions(x.Topology, others, map[string]string{"configure": may.Configure, "write": may.Write, "read": may.Read},
		"user "+user, x.setPermissions())
	if slices.ContainsFunc(account.Tags, func(tag string) bool { return tag == tagAdministrator || tag == "policymaker" }) {
		findings = append(findings, find(userPrivileged, "user "+user, "it has the tags "+strings.Join(account.Tags, ", "), x.unprivileged()...))
	}
	if x.triesOut() {
		forTrial(findings)
	}
	writers, failed := x.writers(ctx)
	return append(findings, writers...), errors.Join(err, failed)
}

// triesOut reports whether the bridge connects as a new RabbitMQ has everybody do who tries it
// out: as guest, on this machine, from where alone guest is let in by default.
func (x *examination) triesOut() bool {
	elsewhere := func(host string) bool {
		u, err := url.Parse(host)
		return err != nil || !isHere(u.Hostname())
	}
	return x.amqpUser() == "guest" && !slices.ContainsFunc(broker.Hosts(x.amqpAddress()), elsewhere)
}

// forTrial makes notes of what is no reason to act while something is tried out.
func forTrial(findings []Finding) {
	for i := range findings {
		if f := &findings[i]; f.Code == permissionTooWide || f.Code == userPrivileged {
			f.Severity, f.Means = Note, "it is RabbitMQ's own user for trying things out on this machine; in production "+f.Means
		}
	}
}

// writers finds other users who may write to what only a bridge may. Administrators may do
// anything.
func (x *examination) writers(ctx context.Context) (findings []Finding, err error) {
	var users []struct {
		Name string `json:"name"`
		Tags tags   `json:"tags"`
	}
	var permissions []struct {
		User  string `json:"user"`
		Write string `json:"write"`
	}
	if err := errors.Join(x.Management.Get(ctx, "users", &users), x.Management.Get(ctx, "vhosts/{vhost}/permissions", &permissions)); err != nil {
		return nil, err
	}
	tagged := map[string]tags{}
	for _, u := range users {
		tagged[u.Name] = u.Tags
	}
	entries := x.Topology.EntryExchanges()
	for _, p := range permissions {
		if p.User == x.amqpUser() || slices.Contains(tagged[p.User], tagAdministrator) {
			continue
		}
		may, failed := matcher(p.Write)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("the write pattern %q of user %q cannot be judged here: %w", p.Write, p.User, failed))
			continue
		}
		writes := slices.DeleteFunc(x.exchanges(), func(name string) bool { return !may(name) })
		if x.isOfRole(tagged[p.User], writes) {
			continue
		}
		closed := slices.DeleteFunc(slices.Clone(writes), func(name string) bool { return slices.Contains(entries, name) })
		findings = append(findings, find(userTooWide, "user "+p.User, fmt.Sprintf("write permission %q covers %s", p.Write, some(closed)), x.publisher(p.User, writes)))
	}
	return findings, err
}

// exchanges are the bridge's, those first that harm most, and the one that leads to every queue.
func (x *examination) exchanges() []string {
	t := x.Topology
	names := []string{t.ReadyExchange(), t.RetryExchange(), t.Quarantine(), t.Command()}
	for _, e := range t.Exchanges() {
		if !slices.Contains(names, e.Name) {
			names = append(names, e.Name)
		}
	}
	return append(names, "amq.default")
}

// isOfRole reports whether one of the roles permits to write to these exchanges. A consumer may
// publish, too. Operators and bridges have a tag.
func (x *examination) isOfRole(tags, exchanges []string) bool {
	for role, scope := range map[roles.Role]roles.Scope{
		roles.Consumer: {Queues: []string{"any"}}, roles.Relay: {}, roles.Operator: {}, roles.Bridge: {},
	} {
		rights, err := roles.Of(role, x.Topology, scope)
		if err != nil || rights.Tag != "" && !slices.Contains(tags, rights.Tag) {
			continue
		}
		may := regexp.MustCompile(rights.Write)
		if !slices.ContainsFunc(exchanges, func(name string) bool {
			return !may.MatchString(name) && (role != roles.Consumer || !slices.Contains(x.Topology.EntryExchanges(), name))
		}) {
			return true
		}
	}
	return false
}

// publisher is the command that makes a user one, of the entries that it may write to.
func (x *examination) publisher(user string, exchanges []string) string {
	var scope roles.Scope
	for _, e := range append(x.Topology.Entries(), topology.Entry{}) {
		if slices.Contains(exchanges, x.Topology.EntryExchangeOf(e.Name)) {
			scope.Entries = append(scope.Entries, e.Name)
		}
	}
	rights, err := roles.Of(roles.Publisher, x.Topology, scope)
	if err != nil {
		panic(err) // all entries are configured
	}
	return rights.SetPermissions(x.Management.VHost(), user)
}

// matcher tells whether a name matches a pattern of RabbitMQ's, to which an empty one is ^$. It
// fails for what only PCRE understands.
func matcher(pattern string) (func(name string) bool, error) {
	compiled, err := regexp.Compile(pattern)
	return func(name string) bool { return pattern != "" && compiled.MatchString(name) }, err
}

// unprivileged are the commands that take the tags from the bridge's user. Where the
// management API is asked as the same one, another has to take over first.
func (x *examination) unprivileged() []string {
	demote := "rabbitmqctl set_user_tags " + printable.Shell(x.amqpUser())
	if x.amqpUser() != x.Management.User() {
		return []string{demote}
	}
	return []string{
		"rabbitmqctl add_user OPERATOR PASSWORD", "rabbitmqctl set_user_tags OPERATOR administrator",
		"rabbitmqctl set_permissions " + x.on() + " OPERATOR '^$' '^$' '^$'", demote,
	}
}

// permissionsOverAMQP finds out what the user lacks by trying. What it has beyond that
// does not show.
func (x *examination) permissionsOverAMQP(ctx context.Context, lacking error) ([]Finding, error) {
	_, err := x.Topology.Plan(ctx, channels{ctx, x.conn})
	findings, _ := x.denied(err)
	return findings, fmt.Errorf("whether they are too wide: %w", lacking)
}

// denied makes findings of what the broker has denied the bridge's user; other is the rest of err.
func (x *examination) denied(err error) (findings []Finding, other error) {
	for _, one := range joined(err) {
		var denied *topology.PermissionError
		if !errors.As(one, &denied) {
			other = errors.Join(other, one)
			continue
		}
		code := permissionMissing
		if denied.Permission == "configure" {
			code = permissionConfigure
		}
		findings = append(findings, find(code, "user "+x.amqpUser(), "no "+denied.Permission+" permission for "+some(denied.Names), x.setPermissions()))
	}
	return findings, other
}

// joined returns the errors that err wraps, however deep.
func joined(err error) []error {
	switch e := err.(type) { //nolint:errorlint // takes apart what is joined
	case nil:
		return nil
	case interface{ Unwrap() []error }:
		var all []error
		for _, one := range e.Unwrap() {
			all = append(all, joined(one)...)
		}
		return all
	case *topology.PermissionError:
		return []error{e}
	}
	if inner := errors.Unwrap(err); inner != nil {
		return joined(inner)
	}
	return []error{err}
}

// others are names of exchanges and queues that are not the bridge's.
func (x *examination) others(ctx context.Context) (names []string, err error) {
	var exchanges []struct {
		Name string `json:"name"`
	}
	if err := x.Management.Get(ctx, "exchanges/{vhost}", &exchanges); err != nil {
		return nil, err
	}
	queues, err := x.queues(ctx)
	if err != nil {
		return nil, err
	}
	names = slices.Sorted(maps.Keys(queues))
	for _, e := range exchanges {
		names = append(names, e.Name)
	}
	return append(slices.DeleteFunc(names, func(name string) bool {
		return name == "" || strings.HasPrefix(name, x.Topology.Prefix()+".")
	}), "anything"), nil
}

// judgePermissions compares patterns, by permission, with what a bridge needs, and with
// names that are no affair of its.
func judgePermissions(t *topology.Topology, others []string, patterns map[string]string, subject, command string) ([]Finding, error) {
	var exchanges, all []string
	for _, e := range t.Exchanges() {
		exchanges = append(exchanges, e.Name)
	}
	all = slices.Clone(exchanges)
	for _, q := range t.Queues() {
		if !slices.Contains(all, q.Name) {
			all = append(all, q.Name)
		}
	}
	var findings []Finding
	var wide []string
	for _, p := range []struct {
		name   string
		needed []string
		code   string
	}{
		{"configure", all, permissionConfigure},
		{"write", exchanges, permissionMissing},
		{"read", []string{t.Inbox(), t.Command()}, permissionMissing},
	} {
		match, err := matcher(patterns[p.name])
		if err != nil {
			return findings, fmt.Errorf("the %s pattern %q cannot be judged here: %w", p.name, patterns[p.name], err)
		}
		lacking := slices.DeleteFunc(slices.Clone(p.needed), match)
		if len(lacking) > 0 {
			findings = append(findings, find(p.code, subject, fmt.Sprintf("%s permission %q does not cover %s", p.name, patterns[p.name], some(lacking)), command))
		}
		if i := slices.IndexFunc(others, match); i >= 0 {
			wide = append(wide, fmt.Sprintf("%s permission %q covers %s", p.name, patterns[p.name], others[i]))
		}
	}
	if len(wide) > 0 {
		findings = append(findings, find(permissionTooWide, subject, strings.Join(wide, "; "), command))
	}
	return findings, nil
}

// channels opens channels on a supervised connection.
type channels struct {
	ctx  context.Context //nolint:containedctx // the interface it implements has none
	conn *broker.Conn
}

func (c channels) Channel() (*amqp.Channel, error) { return c.conn.Channel(c.ctx) }
