package wire_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/delaybridge/delaybridge/internal/wire"
)

func TestExpirationMS(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{0: "0", time.Second: "1000", 1500 * time.Microsecond: "1"} {
		if got := wire.ExpirationMS(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

func TestTTLName(t *testing.T) {
	t.Parallel()
	for ttl, want := range map[time.Duration]string{
		time.Millisecond:               "1ms",
		999 * time.Millisecond:         "999ms",
		time.Second:                    "1s",
		1500 * time.Millisecond:        "1500ms",
		90 * time.Second:               "1m30s",
		time.Minute:                    "1m",
		time.Hour:                      "1h",
		time.Hour + time.Second:        "1h1s",
		26*time.Hour + 30*time.Minute:  "26h30m",
		24*time.Hour + time.Nanosecond: "86400000ms",
	} {
		if got := wire.TTLName(ttl); got != want {
			t.Errorf("%v: %s, want %s", ttl, got, want)
		}
	}
}

func TestTTLNameIsUnique(t *testing.T) {
	t.Parallel()
	ttls := rapid.Int64Range(1, 1<<32-1)
	rapid.Check(t, func(t *rapid.T) {
		a := time.Duration(ttls.Draw(t, "a")) * time.Millisecond
		b := time.Duration(ttls.Draw(t, "b")) * time.Millisecond
		if (a == b) != (wire.TTLName(a) == wire.TTLName(b)) {
			t.Fatalf("%v is %s, %v is %s", a, wire.TTLName(a), b, wire.TTLName(b))
		}
		// The name is a duration as Go, and the command line, reads it.
		if d, err := time.ParseDuration(wire.TTLName(a)); err != nil || d != a {
			t.Fatalf("%s is read as %v (%v), want %v", wire.TTLName(a), d, err, a)
		}
	})
}
