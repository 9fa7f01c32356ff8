package redisbridge

import "strconv"

// Step is a boundary on the way of a parked message, as [Config.Observe] sees it.
type Step int

// The steps, in their order. A message that the broker did not take goes back
// into the schedule and begins with StepClaimed again.
const (
	// StepClaimed: Redis has answered the claim, and nothing of it is published.
	StepClaimed Step = iota + 1
	// StepPublished: the message is on its way to the broker.
	StepPublished
	// StepConfirmed: the broker has it, and Redis has not been told.
	StepConfirmed
	// StepSettled: Redis knows that the broker has it, and forgets it once it is due.
	StepSettled
	// StepReturned: the message is back in the schedule, because the broker has not
	// taken it, or it was not published after all.
	StepReturned
)

// String returns claimed, published, confirmed, settled or returned.
func (s Step) String() string {
	switch s {
	case StepClaimed:
		return "claimed"
	case StepPublished:
		return "published"
	case StepConfirmed:
		return "confirmed"
	case StepSettled:
		return "settled"
	case StepReturned:
		return "returned"
	}
	return "Step(" + strconv.Itoa(int(s)) + ")"
}
