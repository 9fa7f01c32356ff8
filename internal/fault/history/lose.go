package history

import "time"

// replicates is within what a replica of Redis has what its primary has been told.
const replicates = time.Second

// lose takes back what Redis was told while it lost writes: nobody knows any more whether that
// has happened. A message that the broker had taken into the inbox was told to Redis by a
// bridge, some time after that.
func (r *record) lose(o *outage) {
	if !o.fault.Loses {
		return
	}
	from := o.fault.At - replicates.Microseconds()
	during := func(at, answered, from int64) bool { return at <= o.mended && (answered == 0 || answered >= from) }
	for i := range r.attempts {
		a, since := &r.attempts[i], from
		if r.inbox {
			since -= handsOver.Microseconds()
		}
		if a.outcome == Published && (during(a.at, a.answered, since) || a.at <= o.mended && r.leftToRedis(from, o.mended)) {
			a.outcome = Unknown
		}
	}
	for _, events := range [][]Event{r.received, r.dropped, r.failed} {
		for _, e := range events {
			r.mayHaveLost = r.mayHaveLost || e.At >= from && e.At <= o.mended
		}
	}
	for i := range r.changes {
		if c := &r.changes[i]; during(c.at, c.answered, from) || r.mayHaveLost && c.at >= from {
			c.outcome, c.due, c.lost = "", 0, true
		}
	}
	if r.mayHaveLost {
		r.looks = nil
	}
}

// leftToRedis says whether a consumer was told in a stretch of time to drop a copy since the
// message was rescheduled, and none later. Nobody but Redis may have had the message then, and
// Redis may have lost the reschedule.
func (r *record) leftToRedis(from, to int64) bool {
	var last int64
	for _, e := range r.dropped {
		if e.Detail == DroppedRescheduled {
			last = e.At
		}
	}
	return last >= from && last <= to
}
