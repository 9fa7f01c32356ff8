// Package migration plans the move from exchanges of the retired plugin
// rabbitmq_delayed_message_exchange to entries of a delay bridge: it reads what
// a virtual host has ([Parse], [Live]), and says which entry takes the place of
// which exchange, which bindings its ready exchange needs, and what is left for
// people to do ([Definitions.Plan]).
//
// The plan is pure. What it asks for, a [topology.Topology] applies.
package migration
