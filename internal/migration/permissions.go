package migration

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/delaybridge/delaybridge/internal/printable"
)

// permissions reports users who may publish to, or bind queues to, an exchange
// of the plugin, and not to what takes its place. Setting a permission replaces
// what there was, so there is one command for each user.
func (p *planner) permissions() {
	for _, user := range p.Permissions {
		var writes, reads []string // the new names that user needs
		unknown := ""
		for _, m := range p.plan.Exchanges {
			for _, need := range []struct {
				pattern, name string
				missing       *[]string
			}{
				{user.Write, m.EntryExchange, &writes},
				{user.Read, m.ReadyExchange, &reads},
			} {
				may, err := match(need.pattern, m.Exchange)
				if err == nil && may {
					var still []string
					still, err = remaining(need.pattern, []string{need.name})
					*need.missing = append(*need.missing, still...)
				}
				if err != nil {
					unknown = need.pattern
				}
			}
		}
		f := Finding{Kind: kindPermission, Name: user.User}
		if unknown != "" {
			f.Why = fmt.Sprintf("whether its pattern %s lets the user publish and bind to the new names cannot be told here", unknown)
			f.Do = "see that users who may write to the old exchange may write to the entry, and those who may read it (bind to it) may read the ready exchange"
			p.find(f)
			continue
		}
		if len(writes)+len(reads) == 0 {
			continue
		}
		var lacks []string
		if len(writes) > 0 {
			lacks = append(lacks, "write "+strings.Join(writes, ", "))
		}
		if len(reads) > 0 {
			lacks = append(lacks, "read (bind queues to) "+strings.Join(reads, ", "))
		}
		f.Why = "the user may use the old name, but not " + strings.Join(lacks, ", nor ")
		f.Do = "grant it before publishers switch, as far as the user needs it"
		f.Commands = []string{strings.Join([]string{"rabbitmqctl set_permissions -p", printable.Shell(p.vhost()), printable.Shell(user.User),
			printable.Shell(user.Configure), printable.Shell(widen(user.Write, writes)), printable.Shell(widen(user.Read, reads))}, " ")}
		p.find(f)
	}
}

// widen makes pattern match names, too.
func widen(pattern string, names []string) string {
	parts := []string{}
	if pattern != "" || len(names) == 0 {
		parts = append(parts, pattern)
	}
	for _, name := range names {
		parts = append(parts, "^"+regexp.QuoteMeta(name)+"$")
	}
	return strings.Join(parts, "|")
}
