package top

import (
	"fmt"
	"strconv"
	"time"
)

// unknown stands for a value that is not known.
const unknown = "–"

// number writes 1,204,332.
func number(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// short writes a number in five characters at most: 9,999, 12.3k, 1.20M.
func short(n float64) string {
	switch {
	case n < 9_999.5:
		return number(int(n + 0.5))
	case n < 99_950:
		return strconv.FormatFloat(n/1e3, 'f', 1, 64) + "k"
	case n < 999_500:
		return strconv.FormatFloat(n/1e3, 'f', 0, 64) + "k"
	case n < 9_995_000:
		return strconv.FormatFloat(n/1e6, 'f', 2, 64) + "M"
	case n < 99_950_000:
		return strconv.FormatFloat(n/1e6, 'f', 1, 64) + "M"
	}
	return strconv.FormatFloat(n/1e6, 'f', 0, 64) + "M"
}

func (r Rate) String() string {
	switch {
	case !r.Known:
		return unknown
	case r.PerSecond > 0 && r.PerSecond < 9.95:
		return strconv.FormatFloat(r.PerSecond, 'f', 1, 64)
	}
	return short(r.PerSecond)
}

// waiting writes how many are in a queue.
func waiting(n *int) string {
	if n == nil {
		return unknown
	}
	return number(*n)
}

// span writes a duration as people say it, in six characters at most: 4 ms, 1.2 s,
// 48 s, 12 m, 5 h, 3 d.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + span(-d)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 100*time.Second:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 100*time.Minute:
		return fmt.Sprintf("%d m", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d d", int(d.Hours()/24))
}

// p99 writes the lateness that one delivery of a hundred exceeds.
func (l Lateness) p99() string {
	if l.Messages == 0 {
		return unknown
	}
	return span(l.P99)
}

// until writes how long it is from now until at.
func until(now, at time.Time) string {
	switch {
	case at.IsZero():
		return unknown
	case !at.After(now):
		return "now"
	}
	return span(at.Sub(now))
}
