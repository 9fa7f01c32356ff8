// Package history keeps what each process of a fault run asked for and saw, and what
// the servers hold in the end. Package checker decides over it.
//
// Each process has a [Writer]. When everything has come to rest, [Read] gathers what
// they wrote, and [Final] says what the servers hold.
//
// # What writers hold to
//
// All processes run on one machine and write times of its one real-time clock,
// which is not set during the run. A call is written down before it is made, a
// delivery before it is handled, an outcome after it is known and before anything
// follows from it. So a process that is killed leaves out outcomes, never causes:
// a missing outcome proves nothing, a missing cause proves a fault. For one order
// a process makes one call of a kind at a time.
package history
