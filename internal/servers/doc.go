// Package servers gives the demo, make up and the tests their RabbitMQ and Redis,
// and the tests of ledgers and order stores their PostgreSQL and MariaDB.
//
// A server is either a container or a private node: the distribution's own
// server program as a child process, with ports, data, cookie and epmd of its
// own, so that whatever else runs on the machine is left alone. Both kinds are
// controlled alike ([RabbitMQ.Kill], [RabbitMQ.Pause], [RabbitMQ.Restart]) and
// read the same configuration, the files in config/, which compose.yaml mounts
// too. The databases are always private nodes.
//
// No server outlives the process that started it, not even after kill -9: see
// lifecycle.
package servers
