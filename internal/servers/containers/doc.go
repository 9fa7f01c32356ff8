// Package containers runs servers in containers of an engine that Docker's client
// reaches, from images that are at hand: each by itself, in a network that they share,
// or as the services of compose.yaml. Nothing is ever pulled.
package containers
