package broker

import (
	"runtime"
	"runtime/debug"

	amqp "github.com/rabbitmq/amqp091-go"
)

// module is this project's name in the information that a program has of its build.
const module = "github.com/delaybridge/delaybridge"

// properties are what the management UI shows of the connection.
func (c *Conn) properties() amqp.Table {
	properties := amqp.NewConnectionProperties()
	for name, value := range c.config.Properties {
		properties[name] = value
	}
	properties["product"] = "delaybridge"
	properties["version"] = Version()
	properties["platform"] = runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
	if c.config.About != "" {
		properties["information"] = c.config.About
	}
	properties.SetClientConnectionName(c.config.Name)
	return properties
}

// Version is this module's, in our own program or in one that uses the packages.
func Version() string {
	const unknown = "(devel)"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module && m.Version != "" {
			return m.Version
		}
	}
	return unknown
}
