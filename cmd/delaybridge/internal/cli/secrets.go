package cli

import (
	"fmt"
	"log/slog"
	"regexp"
	"strings"
)

// Packages leave passwords out of what they say about URLs. What is left is for text that
// quotes the user: a flag that does not exist, a file that cannot be parsed.
var (
	urlPassword   = regexp.MustCompile(`(://[^\s:@/"']*):[^\s"']*@`)
	namedPassword = regexp.MustCompile(`(?i)((?:password|passwd|pwd|pass|secret|token)=)[^\s&"']+`)
)

// WithoutSecrets returns text without the passwords of URLs in it.
func WithoutSecrets(text string) string {
	text = urlPassword.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasSuffix(found, ":password@") { // how our own errors show what a URL is like
			return found
		}
		return urlPassword.ReplaceAllString(found, "${1}:xxxxx@")
	})
	return namedPassword.ReplaceAllString(text, "${1}xxxxx")
}

// hideSecrets does that for what is logged.
func hideSecrets(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(WithoutSecrets(a.Value.String()))
	case slog.KindAny:
		switch v := a.Value.Any().(type) {
		case error:
			a.Value = slog.StringValue(WithoutSecrets(v.Error()))
		case fmt.Stringer:
			a.Value = slog.StringValue(WithoutSecrets(v.String()))
		case []string:
			hidden := make([]string, len(v))
			for i, text := range v {
				hidden[i] = WithoutSecrets(text)
			}
			a.Value = slog.AnyValue(hidden)
		}
	default: // numbers and the like
	}
	return a
}
