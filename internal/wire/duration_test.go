package wire

import (
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0":                 0,
		"0s":                0,
		"1500ms":            1500 * time.Millisecond,
		"30m":               30 * time.Minute,
		"1h30m":             90 * time.Minute,
		"7.3s":              7300 * time.Millisecond,
		"7d":                7 * day,
		"1d12h":             36 * time.Hour,
		"3650d":             3650 * day,
		"10y":               3650 * day,
		"1y2w1d1h":          380*day + time.Hour,
		"2w":                14 * day,
		"0d1ms":             time.Millisecond,
		"-5s":               -5 * time.Second,
		"100000d2000h":      100_000*day + 2000*time.Hour,
		"90h0m0.000000001s": 90*time.Hour + 1,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: got %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "d", "5", "y", "1w1y", "300y", "270y14000w", "270y14000w100000d", "99999999999999999999y", "1.5d", "-1d", "1d-1h", "1h1d", "1d1d", "1 d", "soon", "100001d",
		"99999999999999999999d", "100000d2000000h", "3000000h",
	} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, seed := range []string{"1d12h", "-5s", "100000d2000000h", "1.5h", "d"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		if err == nil && d < 0 && text[0] != '-' {
			t.Errorf("%q became %v", text, d)
		}
	})
}
