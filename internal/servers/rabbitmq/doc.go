// Package rabbitmq starts RabbitMQ with the management plugin, as private nodes or as
// containers: one node, or three that form a cluster. What is started can be killed,
// paused and restarted ([lifecycle.Server]), controlled with rabbitmqctl, and asked over
// the management API.
package rabbitmq
