package wire

import (
	"fmt"
	"unicode/utf8"
)

// MaxReason is the most characters that the reason of an action may have.
const MaxReason = 500

// CheckReason returns an error if a reason for an action is longer than [MaxReason].
func CheckReason(text string) error {
	if n := utf8.RuneCountInString(text); n > MaxReason {
		return fmt.Errorf("a reason of %d characters: use %d at most", n, MaxReason)
	}
	return nil
}
