package topology

import (
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology/internal/rabbitmq"
)

func (x Exchange) details() string {
	if len(x.Args) == 0 {
		return x.Kind
	}
	return x.Kind + ", " + rabbitmq.Details(x.Args)
}

func (b Binding) name() string { return b.Source + " -> " + b.Destination }

func (b Binding) destination() id {
	if b.ToExchange {
		return id{kindExchange, b.Destination}
	}
	return id{kindQueue, b.Destination}
}

func (b Binding) details() string { return rabbitmq.BindingDetails(b.Key, b.Args) }

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
	return rabbitmq.None
}
