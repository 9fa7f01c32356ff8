package wire

import (
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// HeaderGroup names the group of a message, by which all that is parked under it is cancelled at once.
const HeaderGroup = "x-delay-group"

// MaxGroupBytes is the longest name of a group.
const MaxGroupBytes = 255

// Group returns the group that the headers of a message name, or "" for none.
func Group(headers amqp.Table) (string, error) {
	value, there := headers[HeaderGroup]
	if !there || value == nil {
		return "", nil
	}
	name, is := value.(string)
	if !is {
		return "", fmt.Errorf("header %s is a %T: use a string", HeaderGroup, value)
	}
	if name == "" || len(name) > MaxGroupBytes {
		return "", fmt.Errorf("header %s has %d bytes: use 1 to %d", HeaderGroup, len(name), MaxGroupBytes)
	}
	return name, nil
}
