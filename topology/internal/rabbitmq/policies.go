package rabbitmq

// A precedence says what counts where a queue has an argument and a policy sets
// the same (rabbit_quorum_queue.erl, gather_policy_config and
// dead_letter_handler; the same from 3.10 to 4.3 for what is described here).
// An operator policy is merged into the policy before that.
type precedence int

const (
	lower         precedence = iota // the lower of both, where both are numbers
	policyFirst                     // the policy
	argumentFirst                   // the argument
)

// governed are the properties by which a policy can break a promise: a message
// comes early, is dropped or refused, or goes somewhere else.
var governed = [...]struct {
	name       string // in a policy; the argument has the prefix x-
	precedence precedence
	harmless   bool // on a queue that is described without it
}{
	{"message-ttl", lower, false},
	{"max-length", lower, false},
	{"max-length-bytes", lower, false},
	{"expires", lower, false},
	{"delivery-limit", lower, false},
	{"overflow", policyFirst, true},
	{"dead-letter-exchange", argumentFirst, false},
	{"dead-letter-routing-key", argumentFirst, false},
	{"dead-letter-strategy", argumentFirst, true},
	{"delayed-retry-type", policyFirst, false}, // from 4.3 on
}

// effective is what the broker goes by. argument and policy are nil where there
// is none.
func (p precedence) effective(argument, policy any) any {
	switch {
	case policy == nil:
		return argument
	case argument == nil, p == policyFirst:
		return policy
	case p == argumentFirst:
		return argument
	}
	a, okA := Number(argument)
	b, okB := Number(policy)
	if !okA || !okB {
		return policy
	}
	argumentCounts := a <= b
	if a < 0 || b < 0 { // a negative delivery limit means none
		argumentCounts = a >= b
	}
	if argumentCounts {
		return argument
	}
	return policy
}

// Override is a property of a queue that a policy changes.
type Override struct {
	Name      string // in a policy
	Wanted    string // the queue's argument, as [Text] writes it
	Effective string // likewise
}

// Overrides returns what the effective policy of a queue changes. wanted are its arguments as
// described, found those that it has: what is wrong with these by themselves is no override.
func Overrides(wanted, found, policy map[string]any) []Override {
	var overrides []Override
	for _, g := range governed {
		value, set := policy[g.name]
		want, described := wanted["x-"+g.name]
		if !set || (g.harmless && !described) {
			continue
		}
		argument := found["x-"+g.name]
		if e := Text(g.precedence.effective(argument, value)); e != Text(argument) && e != Text(want) {
			overrides = append(overrides, Override{g.name, Text(want), e})
		}
	}
	return overrides
}
