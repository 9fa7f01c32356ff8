package topology

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// none stands for a property that is not there.
const none = "none"

// details writes arguments for people: sorted, comma-separated.
func details(args map[string]any) string {
	return list(args, func(value any) string { return fmt.Sprint(value) })
}

func list(args map[string]any, text func(any) string) string {
	parts := make([]string, 0, len(args))
	for _, name := range slices.Sorted(maps.Keys(args)) {
		parts = append(parts, name+"="+text(args[name]))
	}
	return strings.Join(parts, ", ")
}

func (x Exchange) details() string {
	if len(x.Args) == 0 {
		return x.Kind
	}
	return x.Kind + ", " + details(x.Args)
}

func (b Binding) name() string { return b.Source + " -> " + b.Destination }

func (b Binding) destination() id {
	if b.ToExchange {
		return id{kindExchange, b.Destination}
	}
	return id{kindQueue, b.Destination}
}

func (b Binding) details() string { return bindingDetails(b.Key, b.Args) }

func bindingDetails(key string, args map[string]any) string {
	switch {
	case len(args) == 0 && key == "":
		return "everything"
	case len(args) == 0:
		return "routing key " + key
	case key == "":
		return details(args)
	}
	return "routing key " + key + ", " + details(args)
}

// property is the value that the broker's name for an argument or a property
// stands for.
func (q Queue) property(name string) string { return property(q.Args, name) }

func (x Exchange) property(name string) string {
	if name == "type" {
		return x.Kind
	}
	return property(x.Args, name)
}

func property(args amqp.Table, name string) string {
	switch name {
	case "durable":
		return "true"
	case "auto_delete", "internal", "exclusive":
		return "false"
	}
	if value, ok := args[name]; ok {
		return fmt.Sprint(value)
	}
	return none
}
