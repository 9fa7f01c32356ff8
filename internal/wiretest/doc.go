// Package wiretest is what tests of the wire contract share: the values of the
// headers that say when, each under the name of its row in docs/wire-contract.md,
// arbitrary messages, and a client that sends what its library cannot.
package wiretest
