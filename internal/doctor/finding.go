package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Severity of a finding.
type Severity string

// The severities.
const (
	// Problem: a promise is broken, or messages do not get through.
	Problem Severity = "problem"
	// Warning: that is so as soon as something else happens; or it cannot be told.
	Warning Severity = "warning"
	// Note: good to know, and no reason to act.
	Note Severity = "note"
)

func (s Severity) rank() int { return slices.Index([]Severity{Problem, Warning, Note}, s) }

// Finding is one thing that is not as it should be.
type Finding struct {
	// Code never changes its meaning; docs/findings.md has an entry for each.
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	// Subject names the offender.
	Subject string `json:"subject"`
	Found   string `json:"found"`
	Means   string `json:"means"`
	// Do says what no command does, or which of several is the one to take.
	Do string `json:"do,omitempty"`
	// Commands mend it, in order. Words in capitals are for the reader to fill in.
	Commands []string `json:"commands"`
}

// find is a finding with what the catalogue has about its code.
func find(code, subject, found string, commands ...string) Finding {
	k := catalogue()[code]
	return Finding{
		Code: code, Severity: k.severity, Subject: subject, Found: found, Means: k.means, Do: k.do,
		Commands: append([]string{}, commands...),
	}
}

// Codes returns the codes of all findings that there may be, sorted.
func Codes() []string { return slices.Sorted(maps.Keys(catalogue())) }

// some lists the first few names.
func some(names []string) string {
	const shown = 3
	if more := len(names) - shown; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), more)
	}
	return strings.Join(names, ", ")
}

// StatisticsNote says how old what the management API tells of queues may be, behind the
// number of findings.
const StatisticsNote = " so far; RabbitMQ's statistics are up to 10 s old"

// Outcomes of a check.
const (
	OutcomeFine     = "fine"
	OutcomeFindings = "findings"
	OutcomeNotMade  = "not made" // or not all of it
)

// Check is what came of one check.
type Check struct {
	Name    string   `json:"name"`
	Outcome string   `json:"outcome"`
	Codes   []string `json:"codes"` // of its findings
}

// Report is what an examination comes to. Findings are in order of severity.
type Report struct {
	Findings []Finding `json:"findings"`
	Checks   []Check   `json:"checks"`
}

// Severe reports whether there is more than notes.
func (r Report) Severe() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity != Note })
}

// OnlyNotes reports whether a check has found no more than notes.
func (r Report) OnlyNotes(c Check) bool {
	return !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity != Note && slices.Contains(c.Codes, f.Code) })
}

// Unreachable reports whether a server did not answer.
func (r Report) Unreachable() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool {
		return f.Code == brokerUnreachable || f.Code == managementUnreachable || f.Code == redisUnreachable
	})
}

// Without returns the report without the findings of some codes.
func (r Report) Without(codes ...string) Report {
	left := func(code string) bool { return slices.Contains(codes, code) }
	r.Findings = slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return left(f.Code) })
	r.Checks = slices.Clone(r.Checks)
	for i, c := range r.Checks {
		r.Checks[i].Codes = slices.DeleteFunc(slices.Clone(c.Codes), left)
		if c.Outcome == OutcomeFindings && len(r.Checks[i].Codes) == 0 {
			r.Checks[i].Outcome = OutcomeFine
		}
	}
	return r
}
