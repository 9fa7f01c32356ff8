package intake_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/delaybridge/delaybridge/redisbridge/internal/intake"
)

// unacknowledged is what a broker knows of a channel's deliveries, and minds as
// RabbitMQ does.
type unacknowledged struct {
	mu     sync.Mutex
	tags   map[uint64]bool // whether dealt with
	frames int
	faults []string
}

func (u *unacknowledged) Ack(tag uint64, multiple bool) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.frames++
	if _, known := u.tags[tag]; !known {
		u.faults = append(u.faults, fmt.Sprint("unknown delivery tag ", tag))
	}
	for t, done := range u.tags {
		if t != tag && (!multiple || t > tag) {
			continue
		}
		if !done {
			u.faults = append(u.faults, fmt.Sprint("acknowledged in hand: ", t))
		}
		delete(u.tags, t)
	}
	return nil
}

func (u *unacknowledged) set(tag uint64, done bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tags[tag] = done
}

func (u *unacknowledged) Nack(uint64, bool, bool) error   { panic("nack") }
func (u *unacknowledged) Reject(tag uint64, _ bool) error { return u.Ack(tag, false) }

func TestAcksAreWhatIsDealtWith(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		broker := &unacknowledged{tags: map[uint64]bool{}}
		add, reject, flush := intake.NewAcks(broker, rapid.IntRange(1, 20).Draw(t, "most"))
		var inHand []uint64
		for tag := uint64(1); tag <= 100 || len(inHand) > 0; tag++ {
			if tag <= 100 {
				broker.set(tag, false)
				inHand = append(inHand, tag)
			}
			if tag <= 100 && len(inHand) < 20 && rapid.Bool().Draw(t, "another comes") {
				continue
			}
			i := rapid.IntRange(0, len(inHand)-1).Draw(t, "next")
			broker.set(inHand[i], true)
			if rapid.IntRange(0, 9).Draw(t, "fate") == 0 {
				reject(inHand[i])
			} else {
				add(inHand[i])
			}
			inHand = append(inHand[:i:i], inHand[i+1:]...)
			if rapid.IntRange(0, 9).Draw(t, "time passes") == 0 {
				flush()
			}
		}
		flush()
		if len(broker.tags) > 0 || len(broker.faults) > 0 {
			t.Fatalf("not acknowledged: %v; %v", broker.tags, broker.faults)
		}
	})
}

func TestAcksShareFrames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // in which no time passes meanwhile
		broker := &unacknowledged{tags: map[uint64]bool{}}
		add, _, flush := intake.NewAcks(broker, 50)
		for tag := uint64(1); tag <= 100; tag++ {
			broker.set(tag, true)
			if tag != 10 {
				add(tag)
			}
		}
		add(10)
		flush()
		if len(broker.tags) > 0 || len(broker.faults) > 0 || broker.frames > 3 {
			t.Errorf("%d frames for 100 messages, not acknowledged: %v; %v", broker.frames, broker.tags, broker.faults)
		}
	})
}
