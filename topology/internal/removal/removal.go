// Package removal takes queues and exchanges away without losing a message: [Delete]
// all of a topology, [Prune] what an earlier configuration has left while messages go
// on to flow. It is told what there is to remove and in which order, and knows when a
// queue is empty: by AMQP, and by statistics of the management API that are newer.
package removal

// Actions of a [Change].
const (
	ActionDelete = "delete"
	ActionWait   = "wait" // for what cannot be deleted yet
	ActionKeep   = "keep" // what others use
)

// Change is what was removed, or what is left and why.
type Change struct {
	Action  string // delete, wait or keep
	Kind    string // exchange, queue, binding or bridge
	Name    string // of a binding: source -> destination
	Details string
}
