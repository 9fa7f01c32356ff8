// Package checker decides from the history of a fault run whether a promise was
// broken. [Check] judges each order by all [Rules], and makes a [Report];
// [Report.Story] tells what is known of one order. It relies on what package history
// says of those who write.
//
// # What it concludes
//
//   - lost: publish returned success, no cancel happened, and no handler was called since,
//     wherever the message lies now; or a handler was called, neither an effect nor a
//     rejection was ever written, and the order is still pending; or its message was
//     rejected and is not in quarantine. A cancel without an answer happened if Redis
//     holds the message as cancelled in the end.
//   - early: a delivery at any microsecond before the first instant that any of the
//     attempts from which it can stem asked for, or before the due time that it
//     carries, or, if each of those attempts returned one, before the first of the
//     due times that publish returned. It can stem from each attempt that had
//     begun by then, except those to which publish said definitely no. After a
//     reschedule that was answered, what counts is its due time alone, and those of
//     reschedules after it or without an answer. Or: another attempt to handle it
//     before the handler wanted it.
//   - double: more than one effect, or entry in the store's log, that closed the
//     order.
//   - wrong: any two witnesses that contradict each other about whether an order is
//     paid, closed or pending (the store, its log, effects, accepted and refused
//     payments); an effect without a delivery before it, a payment refused before
//     any delivery, an order paid before a payment was tried; a delivery that nobody, or
//     only an attempt with a definite no, had published, or that is not what was
//     published; a handler that was called in spite of a cancel, by a consumer that asked
//     after the answer, however many copies there were, or at the old time
//     of a message that has a new one; an answer that is not true: "cancelled",
//     "rescheduled" or "unknown" though it had been received, "delivered" before it
//     could be or though it never came; a message that a consumer dropped without a
//     reason; an attempt that follows from no failed one; an order that is pending
//     though its message was acknowledged; a message in quarantine that no handler
//     has rejected, or without what it said; an order that the store has forgotten;
//     stock that does not add up; keys in Redis that contradict each other; a message
//     without an ID that came under more IDs than it was published, though nothing was
//     broken except that a bridge was asked to end, or under one that does not say that
//     it may be a repetition; an order that came late, or whose publishing was not
//     confirmed, because another order's queue answered nothing.
//   - late: an order that came late although nothing was broken, nor had been so shortly
//     before that it could still be felt, for longer than it may be late.
//
// One order can break several promises; each counts once.
//
// # What it cannot conclude
//
//   - Whether an attempt of unknown outcome happened. If nothing was delivered, it
//     did not; if something was, it may have.
//   - From which of several attempts a delivery stems. The most lenient one counts,
//     so a delivery of the second attempt that is early by less than it came after
//     the first one goes unnoticed, unless the message carries its due time.
//   - Whether a pay and a close that overlap were in the right order: either may
//     win, and both must then agree.
//   - Which of a process' handlers an acknowledgement belongs to. One that was lost
//     shows only as a duplicate.
//   - Whether a message that was received once, and whose order is paid or closed,
//     was dropped before the handler had finished.
//   - What should come of a message after a cancel or reschedule without an answer:
//     it may happen at any time.
//   - Where more than one attempt to publish a message may have succeeded, whether a reschedule
//     reached all copies, if one of them can have been due by then: while the first one
//     waits, a repetition is that message, and afterwards it is another one. A bridge takes
//     a repetition from the inbox at any time; so nothing is said of one that asked for
//     the same instant and comes after the new time. A message out of the inbox may be
//     parked twice, if it was due before the bridge had heard that it was parked.
//   - Whether a message comes again that had come, and was repeated before it was due by the clock of
//     Redis, which was set back: it waited once more, and the repetition was that message.
//   - Of a message that had come before a later copy was cancelled, whether it should have
//     come again: that one could not be cancelled any more.
//   - Whether a tombstone, or a new time of a message of which nothing is known, must
//     hold, if publishing it had not been answered before, or was dated by a clock that
//     is ahead: it may count as another message.
//   - What became of what Redis was told while it lost writes, or a second before that; and of
//     what was published to the inbox up to half a minute before, since a bridge may have
//     taken it from there meanwhile.
//   - Whether a message for two queues should have come to both, if it came to one while an
//     exchange that leads to them was deleted, and put back.
//   - Of two orders whose messages have one ID, of which of them an answer was true.
//   - Whether a fault that was not mended was still in force. Stories show it when it
//     happened.
package checker
