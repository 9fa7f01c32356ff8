package wire

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// leadingDays are years of 365 days, weeks and days.
var leadingDays = regexp.MustCompile(`^(?:([0-9]+)y)?(?:([0-9]+)w)?(?:([0-9]+)d)?`)

// ParseDuration reads a duration as people write it: 1500ms, 30m, 1h30m, 7d,
// 1d12h. A day has 24 hours.
func ParseDuration(text string) (time.Duration, error) {
	wrong := fmt.Errorf("%q is not a duration: write 1500ms, 30m, 1h30m, 7d or 1y", text)
	rest := text
	var days time.Duration
	if m := leadingDays.FindStringSubmatch(text); m[0] != "" {
		count := int64(0)
		for unit, length := range []int64{1: 365, 2: 7, 3: 1} {
			if m[unit] == "" || unit == 0 {
				continue
			}
			n, err := strconv.ParseInt(m[unit], 10, 32)
			if count += n * length; err != nil || count > 100_000 {
				return 0, fmt.Errorf("%q is longer than any delay", text)
			}
		}
		days = time.Duration(count) * 24 * time.Hour
		if rest = text[len(m[0]):]; rest == "" {
			return days, nil
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || (days > 0 && (d < 0 || days+d < 0)) { // beyond 292 years it wraps around
		return 0, wrong
	}
	return days + d, nil
}

// ParseInstant reads an instant as people write it, by RFC 3339.
func ParseInstant(text string) (time.Time, error) {
	instant, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not an instant: write 2030-01-01T08:00:00Z or 2030-01-01T08:00:00+01:00", text)
	}
	return instant, nil
}
