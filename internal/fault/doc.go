// Package fault tries to break the promises of the delay bridge.
//
// A run starts real servers, and bridges, consumers and customers as processes
// of their own, each behind proxies of its own. While the customers order and
// pay, scenarios kill, stop, cut and fill what they can, alone and together, in
// an order that follows from a seed. Every process writes down what it asked for
// and saw; when everything has come to rest, package history decides whether a
// promise was broken.
//
// A scenario ends by mending what it broke. Whatever does not come right after
// that by itself is a fault of the bridge.
//
// This package plans a run, performs it and reports. Its rooms, of which each
// knows only those before it, are shop (orders, and the databases that keep
// them), roles (what the processes do), world (servers, links and processes),
// and scenarios (what is broken). Package pause measures one promise more.
package fault
