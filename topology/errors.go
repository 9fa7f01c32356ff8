package topology

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology/internal/rabbitmq"
)

// Errors that callers branch on.
var (
	// ErrUnreachable means that the management API did not answer.
	ErrUnreachable = errors.New("cannot reach RabbitMQ's management API")
	// ErrConfiguration means that the management URL, or the user or virtual
	// host it is asked with, is wrong, so that trying again does not help.
	ErrConfiguration = errors.New("wrong management URL")
	// ErrIncomplete means that something is missing, and could not be created.
	ErrIncomplete = errors.New("the topology is incomplete")
)

// MismatchError says that an entity of that name exists, but is another one.
// Arguments cannot be changed, and the broker names only the first that differs.
type MismatchError struct {
	Kind     string // kindExchange or kindQueue
	Name     string
	Argument string // such as x-message-ttl, durable or type
	Found    string // "none" where the argument is absent, "" where the broker's answer was cut off
	Wanted   string
	cause    error
}

func (e *MismatchError) Error() string {
	found := fmt.Sprintf("%s %s, not %s", e.Argument, e.Found, e.Wanted)
	if e.Found == "" {
		found = fmt.Sprintf("another %s than %s", e.Argument, e.Wanted)
	}
	return fmt.Sprintf("%s %s exists with %s: choose another prefix, or drain and delete it (delaybridge topology delete), then apply again", e.Kind, e.Name, found)
}

// Unwrap returns the broker's answer.
func (e *MismatchError) Unwrap() error { return e.cause }

// PermissionError says which permission the user lacks, and for which names.
type PermissionError struct {
	Permission string // configure, write or read; RabbitMQ before 4.0 does not tell write from read
	Names      []string
	Pattern    string // the names for which the topology needs configure, write and read
	cause      error
}

func (e *PermissionError) Error() string {
	names := strings.Join(e.Names, ", ")
	if n := len(e.Names) - shownNames; n > 0 {
		names = fmt.Sprintf("%s and %d more", strings.Join(e.Names[:shownNames], ", "), n)
	}
	return fmt.Sprintf("no %s permission for %s (%v): grant configure, write and read for '%s' (rabbitmqctl set_permissions), then try again",
		e.Permission, names, e.cause, e.Pattern)
}

// shownNames is how many names an error lists before it only counts them.
const shownNames = 3

// Unwrap returns the broker's first answer.
func (e *PermissionError) Unwrap() error { return e.cause }

// MissingError says which queues and exchanges of others, to be bound, do not exist.
type MissingError struct {
	Queues    []string
	Exchanges []string
}

func (e *MissingError) Error() string {
	var parts []string
	if len(e.Queues) > 0 {
		parts = append(parts, "queues to bind that do not exist: "+strings.Join(e.Queues, ", "))
	}
	if len(e.Exchanges) > 0 {
		parts = append(parts, "exchanges to bind that do not exist: "+strings.Join(e.Exchanges, ", "))
	}
	return strings.Join(parts, "; ") + ": create them first"
}

// faults gathers what is wrong, so that it is all reported at once.
type faults struct {
	pattern string
	denied  []*PermissionError // one per permission
	others  []error
}

// add notes a fault that one entity has, and reports false where err says
// nothing about the entity: a lost connection, say.
func (f *faults) add(i id, permission string, wanted func(argument string) string, err error) bool {
	refusal, is := rabbitmq.Refusal(err)
	if !is {
		return false
	}
	switch refusal.Code {
	case amqp.AccessRefused:
		f.deny(i.name, rabbitmq.PermissionIn(refusal.Reason, permission), err)
	case amqp.PreconditionFailed:
		f.others = append(f.others, mismatch(i, wanted, refusal))
	case amqp.ResourceLocked:
		f.others = append(f.others, &MismatchError{i.kind, i.name, "exclusive", "true", "false", err})
	default:
		return false
	}
	return true
}

func (f *faults) deny(name, permission string, err error) {
	i := slices.IndexFunc(f.denied, func(e *PermissionError) bool { return e.Permission == permission })
	if i < 0 {
		f.denied = append(f.denied, &PermissionError{Permission: permission, Names: []string{name}, Pattern: f.pattern, cause: err})
		return
	}
	if e := f.denied[i]; !slices.Contains(e.Names, name) {
		e.Names = append(e.Names, name)
	}
}

func (f *faults) join() error {
	var errs []error
	for _, e := range f.denied {
		errs = append(errs, e)
	}
	return errors.Join(append(errs, f.others...)...)
}

// mismatch reads the broker's answer to a declaration. Where it is about
// something else, a limit for instance, its own words have to do.
func mismatch(i id, wanted func(argument string) string, refusal *amqp.Error) error {
	argument, found, ok := rabbitmq.DifferenceIn(refusal.Reason)
	if !ok {
		return fmt.Errorf("%s %s: %w", i.kind, i.name, refusal)
	}
	return &MismatchError{Kind: i.kind, Name: i.name, Argument: argument, Found: found, Wanted: wanted(argument), cause: refusal}
}
