package wire

import (
	"fmt"
	"unicode/utf8"
)

// MaxReason is the most characters that the reason of an action may have.
const MaxReason = 500

// CheckReason returns an error where the reason that somebody gives for an action is too long.
func CheckReason(text string) error {
	if n := utf8.RuneCountInString(text); n > MaxReason {
		return fmt.Errorf("a reason of %d characters: use %d at most", n, MaxReason)
	}
	return nil
}
