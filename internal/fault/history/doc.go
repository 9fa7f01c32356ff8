// Package history keeps what each process of a fault run asked for and saw, and
// decides afterwards whether a promise was broken.
//
// Each process has a [Writer]. When everything has come to rest, [Read] gathers
// what they wrote, [Final] says what the servers hold, and [Check] compares.
//
// # What the checker relies on
//
// All processes run on one machine and write times of its one real-time clock,
// which nobody sets during the run. A call is written down before it is made, a
// delivery before it is handled, an outcome after it is known and before anything
// follows from it. So a process that is killed leaves out outcomes, never causes:
// a missing outcome proves nothing, a missing cause proves a fault. For one order
// a process makes one call of a kind at a time.
//
// # What it concludes
//
//   - lost: publish returned success and no handler was ever called, wherever the
//     message lies now; or a handler was called, no effect was ever written, and
//     the order is still pending.
//   - early: a delivery at any microsecond before the first instant that any of the
//     attempts from which it can stem asked for, or before the due time that it
//     carries, or, if each of those attempts returned one, before the first of the
//     due times that publish returned. It can stem from each attempt that had
//     begun by then, except those to which publish said definitely no.
//   - double: more than one effect, or entry in the store's log, that closed the
//     order.
//   - wrong: any two witnesses that contradict each other about whether an order is
//     paid, closed or pending (the store, its log, effects, accepted and refused
//     payments); an effect without a delivery before it, a payment refused before
//     any delivery, an order paid before anybody tried; a delivery that nobody, or
//     only an attempt with a definite no, had published, or that is not what was
//     published; an effect in spite of an accepted cancel; an order that is
//     pending though its message was acknowledged; a message in quarantine; an
//     order that the store has forgotten; stock that does not add up.
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
//   - What should come of a message after a cancel without a definite answer, or of
//     one published again after a cancel; nor whether "too late" was true, unless
//     the message never comes.
//   - Whether a fault that nobody mended was still in force. Stories show it when it
//     happened.
package history
