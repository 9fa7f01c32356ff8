// Package ledger remembers which messages have had their effect.
//
// Delivery is at least once: a message comes again when its acknowledgement was
// lost, when its consumer died, and when its publisher was not sure and repeated
// it. A [Ledger] stands between the delivery and the effect, and lets each
// message have its effect once:
//
//	first, err := l.Once(ctx, key, func(ctx context.Context) error {
//		return sendReminder(ctx, order)
//	})
//	// err == nil: acknowledge, whether it was the first or a duplicate
//
// How sure that "once" is depends on where the mark is kept.
//
//   - In the database that the effect is in, the mark is a row of the same
//     transaction: packages postgres, mysql and sqlite. Both are committed or
//     neither is, whatever dies at whatever instant. This is the inbox pattern,
//     and the only way to exactly once. The effect finds the transaction in its
//     context, by the package's Tx, and everything it does elsewhere, such as
//     sending a mail, is still at least once.
//   - Elsewhere there is an instant between the effect and its mark: package
//     redis. A process that dies in between leaves an effect without a mark, and
//     the next delivery repeats it. All other duplicates are recognised.
//
// A consumer of package consumer takes a ledger as Config.Ledger. A service with
// a loop of its own calls Once from it, or, on a database, Mark within its own
// transaction; examples/ownloop does.
//
// # Keys
//
// A key says what must happen once, and must say the same for each duplicate. The
// message's ID does, as long as one ledger serves one queue; where a message is
// delivered to two queues, each of their consumers has an effect of its own, and
// so needs a key of its own. Package consumer uses the queue's name, a slash and
// the ID, or where the name itself has a slash: a slash, a byte with the length of
// the name, the name and the ID. Publishers that mean two effects must use two IDs.
//
// # How long marks are kept
//
// A mark must outlast the last duplicate. Copies of a message are due at the same
// time, so what counts is how long a message may wait for a consumer, or for its
// publisher's next attempt: days, to be safe, not hours. Redis drops marks by
// itself. In a database they stay until Forget is called, which [Sweep] does
// regularly.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// MaxKeyBytes is the longest key: the name of a queue, a slash and a message's
// ID, each as long as AMQP allows, are 511 bytes.
const MaxKeyBytes = 512

// Ledger remembers which messages have had their effect. It may be used by any
// number of goroutines and processes at a time.
type Ledger interface {
	// Once calls effect, unless a message with this key has had its effect, and
	// remembers that it had. It never calls effect while another call with the same
	// key, in whatever process, is at it: it waits for that one, or returns an error
	// that wraps ErrBusy.
	//
	// It returns true where effect was called and has succeeded, and false and no
	// error for a duplicate. An error of effect is returned as it is, and a panic
	// goes on; both leave no mark, so that effect is called again the next time. True
	// beside an error means that the effect has happened, but perhaps not its mark.
	//
	// A key is any 1 to MaxKeyBytes bytes.
	Once(ctx context.Context, key string, effect func(ctx context.Context) error) (first bool, err error)
}

// ErrBusy says that another call has the effect under way. Try again: by then it has
// either happened, or is free.
var ErrBusy = errors.New("the effect is under way elsewhere")

// BusyError is an ErrBusy that says how long to wait before the next try.
type BusyError struct {
	// Wait is the retry delay. The claim of a holder that died is free within three waits.
	Wait time.Duration
}

// Error says how long to wait.
func (b *BusyError) Error() string { return fmt.Sprintf("%v: try again in %v", ErrBusy, b.Wait) }

// Is reports that it is an ErrBusy.
func (b *BusyError) Is(target error) bool { return target == ErrBusy }

// CheckKey returns an error for a key that is empty or too long. Implementations
// of Ledger call it.
func CheckKey(key string) error {
	switch n := len(key); {
	case n == 0:
		return errors.New("ledger: the key is empty: use the message's ID")
	case n > MaxKeyBytes:
		return fmt.Errorf("ledger: key of %d bytes is too long: use up to %d (it starts with %.40q)", n, MaxKeyBytes, key)
	}
	return nil
}
