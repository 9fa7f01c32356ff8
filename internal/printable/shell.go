package printable

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Shell writes s so that a POSIX shell reads it as one word. With s that is not printable it
// takes a shell that knows $'...', as bash and zsh do: only so can it be shown.
func Shell(s string) string {
	const harmless = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/=@%+,-"
	switch {
	case s != "" && strings.Trim(s, harmless) == "" && s[0] != '-' && s[0] != '=': // zsh looks up =word
		return s
	case Text(s) == s:
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var word strings.Builder
	for rest := s; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch char := rest[:size]; {
		case r == '\'' || r == '\\':
			word.WriteString(`\` + char)
		case Text(char) == char:
			word.WriteString(char)
		default:
			for _, b := range []byte(char) {
				fmt.Fprintf(&word, `\%03o`, b)
			}
		}
		rest = rest[size:]
	}
	return "$'" + word.String() + "'"
}
