package history

import "strings"

const queueMark = "@"

// InQueue is the name of an order in what is written of a second queue to which its message
// goes: each of the two is judged by itself.
func InQueue(order, queue string) string { return order + queueMark + queue }

// OrderOf is the opposite of [InQueue].
func OrderOf(name string) string {
	order, _, _ := strings.Cut(name, queueMark)
	return order
}

// spread adds what concerns more than one order or queue once more for the other one, in the
// place that it has in the order of time: what the client did, for the second queue to which
// its message goes; and what was changed, for the order whose message has the same ID.
func spread(events []Event) []Event {
	var all []Event
	also := map[string]string{}   // queues, by order
	shares := map[string]string{} // orders, by the one whose ID they share
	for _, e := range events {
		if e.Kind == Placed && e.ID != "" {
			shares[e.ID] = e.Order
		}
	}
	for _, e := range events {
		all = append(all, e)
		if other, ok := shares[e.Order]; ok && e.Kind.changes() {
			its := e
			its.Order = other
			all = append(all, its)
		}
		if e.Kind == Placed && e.Also != "" {
			also[e.Order] = e.Also
			e.Queue, e.Also = e.Also, ""
		}
		if queue, ok := also[e.Order]; ok && e.Kind.concernsTheMessage() {
			e.Order = InQueue(e.Order, queue)
			all = append(all, e)
		}
	}
	return all
}

// concernsTheMessage says whether it is what a client did with an order's message.
func (k Kind) concernsTheMessage() bool {
	switch k {
	case Placed, Publish, Published, Unknown, Refused, Get, Got:
		return true
	default:
		return k.changes()
	}
}

// changes says whether it is a change to a message, or the answer to one.
func (k Kind) changes() bool {
	switch k {
	case Cancel, Cancelled, Tombstoned, CancelLate, CancelRefused, CancelUnknown,
		Reschedule, Rescheduled, Noted, RescheduleLate, RescheduleCancelled, RescheduleRefused, RescheduleUnknown:
		return true
	default:
		return false
	}
}
