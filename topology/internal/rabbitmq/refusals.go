package rabbitmq

import (
	"errors"
	"regexp"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// The broker's answers (rabbit_misc.erl, rabbit_access_control.erl).
var (
	differing  = regexp.MustCompile(`inequivalent arg '([^']+)'`)
	current    = regexp.MustCompile(`but current is (?:the value )?'?(.*?)'?(?: of type '\w+')?$`)
	permission = regexp.MustCompile(`(configure|write|read) access to`)
	// unacceptable is about an inequivalent argument if another process has created the
	// entity meanwhile.
	unacceptable = regexp.MustCompile(`(invalid|inequivalent) arg|invalid type`)
)

// Refusal returns the broker's refusal that err is, or false where err says nothing about
// an entity: a lost connection, say.
func Refusal(err error) (*amqp.Error, bool) {
	refusal, is := errors.AsType[*amqp.Error](err)
	return refusal, is && refusal.Server
}

// Answered reports whether err is the broker's refusal with that code.
func Answered(err error, code int) bool {
	refusal, is := Refusal(err)
	return is && refusal.Code == code
}

// AnsweredUnacceptable reports whether err is the broker's refusal of the arguments of a
// declaration, which the user was permitted to make.
func AnsweredUnacceptable(err error) bool {
	refusal, is := Refusal(err)
	return is && refusal.Code == amqp.PreconditionFailed && unacceptable.MatchString(refusal.Reason)
}

// PermissionIn reads from the broker's answer which permission is lacking. Before 4.0 the
// answer does not name it, and otherwise is returned.
func PermissionIn(reason, otherwise string) string {
	if m := permission.FindStringSubmatch(reason); m != nil {
		return m[1]
	}
	return otherwise
}

// DifferenceIn reads from the broker's answer to a declaration by which argument an entity
// that exists differs, and the value that it has: [None] where the argument is absent, ""
// where the answer was cut off. It returns false where the answer is about something else,
// a limit for instance.
func DifferenceIn(reason string) (argument, found string, ok bool) {
	named := differing.FindStringSubmatch(reason)
	if named == nil {
		return "", "", false
	}
	argument = named[1]
	// AMQP cuts the answer off at 255 bytes.
	if m := current.FindStringSubmatch(reason); m != nil && !strings.HasSuffix(reason, "...") {
		found = m[1]
	}
	if argument == ArgQueueType && found == None {
		found = "classic" // what a queue without a type is, before 4.0
	}
	return argument, found, true
}
