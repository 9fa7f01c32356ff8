package main

import (
	"context"
	"time"
)

// contender is one way to get a message delivered later. It is started once,
// measured under one load, and stopped, with its servers.
type contender interface {
	// start starts servers and workers. deliver is called with the body of each
	// message that comes out, from any goroutine, before it is acknowledged.
	start(ctx context.Context, deliver func(body []byte)) error
	// publish returns nil once the servers have the message on disk. Many calls
	// are under way at once.
	publish(ctx context.Context, body []byte, delay time.Duration) error
	// memory is what each of its servers holds, in bytes.
	memory(ctx context.Context) (map[string]float64, error)
	// stop ends everything, also after a start that has failed half-way.
	stop() error
}

// candidate is a contender in the table.
type candidate struct {
	name string
	make func() contender
	// oneDelay says that it is measured with one and the same delay: it can do
	// no other, or is the limit that the others are held against.
	oneDelay bool
}

func candidates() []candidate {
	return []candidate{
		{name: "raw", make: func() contender { return &queue{} }, oneDelay: true},
		{name: "bridge", make: func() contender { return &bridge{} }},
		{name: "mixed", make: func() contender { return &queue{} }},
		{name: "ladder", make: func() contender { return &ladder{} }},
		{name: "asynq", make: func() contender { return &asynqQueue{} }},
		{name: "river", make: func() contender { return &riverQueue{} }},
	}
}
