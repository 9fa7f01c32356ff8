// Package servers gives the demo, make up and the tests their RabbitMQ and Redis:
// from where, in which layout and of which image, a [Config] says or the environment.
//
// A server is either a container or a private node: the distribution's own
// server program as a child process, with ports, data, cookie and epmd of its
// own, so that whatever else runs on the machine is left alone. Both kinds are
// controlled alike ([lifecycle.Server]) and read the same configuration, the
// files in config/, which compose.yaml mounts too.
//
// The rooms know how to run a server, and not what was chosen: rabbitmq and redisserver
// are the servers, private and containers what runs them, lifecycle what all have in
// common. The room databases has PostgreSQL and MariaDB, for ledgers and order stores;
// these are always private nodes.
//
// No server outlives the process that started it, not even after kill -9: see
// [lifecycle.Watchdog].
package servers
