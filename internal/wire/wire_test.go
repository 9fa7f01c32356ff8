package wire_test

import (
	"testing"
	"time"

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
