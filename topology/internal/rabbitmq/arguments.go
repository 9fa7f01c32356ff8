package rabbitmq

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Arguments of queues, exchanges and bindings, as the broker spells them
// (rabbit_amqqueue.erl, rabbit_quorum_queue.erl).
const (
	ArgQueueType     = "x-queue-type"
	ArgMessageTTL    = "x-message-ttl"
	ArgDeadLetter    = "x-dead-letter-exchange"
	ArgStrategy      = "x-dead-letter-strategy"
	ArgOverflow      = "x-overflow"
	ArgDeliveryLimit = "x-delivery-limit"
	ArgAlternate     = "alternate-exchange"
	ArgMatch         = "x-match"
)

// None stands for a property that is not there.
const None = "none"

// Number returns the integer that an argument is, as read from the management API or as
// declared.
func Number(value any) (int64, bool) {
	switch n := value.(type) {
	case json.Number:
		i, err := n.Int64()
		return i, err == nil
	case int64:
		return n, true
	}
	return 0, false
}

// Text writes a value of an argument so that the number 5000 and the string
// "5000" stay apart. nil is [None].
func Text(value any) string {
	switch v := value.(type) {
	case nil:
		return None
	case string:
		return fmt.Sprintf("%q", v)
	}
	return fmt.Sprint(value)
}

// Exactly writes arguments so that two texts are the same only if the arguments are.
func Exactly(args map[string]any) string { return list(args, Text) }

// Details writes arguments for people: sorted, comma-separated.
func Details(args map[string]any) string {
	return list(args, func(value any) string { return fmt.Sprint(value) })
}

func list(args map[string]any, text func(any) string) string {
	parts := make([]string, 0, len(args))
	for _, name := range slices.Sorted(maps.Keys(args)) {
		parts = append(parts, name+"="+text(args[name]))
	}
	return strings.Join(parts, ", ")
}

// BindingDetails writes for people what a binding lets through.
func BindingDetails(key string, args map[string]any) string {
	switch {
	case len(args) == 0 && key == "":
		return "everything"
	case len(args) == 0:
		return "routing key " + key
	case key == "":
		return Details(args)
	}
	return "routing key " + key + ", " + Details(args)
}
