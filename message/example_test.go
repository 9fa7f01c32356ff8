package message_test

import (
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/message"
)

// A delay runs by a server's clock; an instant is the same for everybody.
func ExampleWhen() {
	published := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, w := range []message.When{
		message.After(30 * time.Minute),
		message.At(time.Date(2026, 5, 2, 8, 0, 0, 0, time.UTC)),
		{}, // at once
	} {
		fmt.Println(w.From(published).UTC().Format(time.RFC3339))
	}
	// Output:
	// 2026-05-01T12:30:00Z
	// 2026-05-02T08:00:00Z
	// 2026-05-01T12:00:00Z
}
