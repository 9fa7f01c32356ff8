package wiretest

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Tiers are those that the cases speak of: one within each width of integer.
func Tiers() []time.Duration {
	return []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, time.Second}
}

// Fate is what becomes of a message that was published to the entry exchange.
type Fate int

// The fates.
const (
	Tier       Fate = iota + 1 // the broker keeps it for the delay, and no bridge meets it
	Parked                     // Redis keeps it until shortly before it is due
	Waits                      // the same, for longer than a test
	AtOnce                     // a bridge hands it over at once
	Direct                     // the broker hands it over at once
	Quarantine                 // it is set aside, with the reason
	Refused                    // the broker closes the publisher's connection
)

// Case is headers, and what they mean.
type Case struct {
	Row     string // of the table in docs/wire-contract.md
	Name    string // unique
	Headers func(now time.Time) amqp.Table
	Fate    Fate
	// After is the delay, and At the instant, where there is one.
	After time.Duration
	At    func(now time.Time) time.Time
	// Reason is a part of what quarantine says.
	Reason string
}

// Carries reports whether the bridge meets the message, and so publishes some headers under
// other names.
func (c *Case) Carries() bool { return c.Fate == Parked || c.Fate == AtOnce || c.Fate == Quarantine }

// Heading is what the tables of docs/wire-contract.md are under, of which each row
// has a case, and each case a row.
const Heading = "### What each value means"

// tenYears is message.MaxDelay.
const tenYears = 10 * 365 * 24 * time.Hour

// Cases returns the values of both headers. The fate of a float that equals a tier
// depends on the release of RabbitMQ, which floatsMatch tells.
func Cases(floatsMatch bool) []Case {
	floatFate := Parked
	if floatsMatch {
		floatFate = Tier
	}
	var all []Case
	for _, c := range []struct {
		row    string
		fate   Fate
		after  int64 // ms
		reason string
		values map[string]any // by a name of their own
	}{
		{"an integer that equals a tier", Tier, 100, "", map[string]any{"int8": int8(100), "byte": byte(100)}},
		{"an integer that equals a tier", Tier, 200, "", map[string]any{"large byte": byte(200)}},
		{"an integer that equals a tier", Tier, 1000, "", map[string]any{
			"int16": int16(1000), "uint16": uint16(1000), "int32": int32(1000), "uint32": uint32(1000), "int64": int64(1000), "wire type L": Long(1000),
		}},
		{"an integer between tiers", Parked, 120, "", map[string]any{"int8": int8(120), "byte": byte(120)}},
		{"an integer between tiers", Parked, 1234, "", map[string]any{
			"int16": int16(1234), "uint16": uint16(1234), "int32": int32(1234), "uint32": uint32(1234), "int64": int64(1234), "wire type L": Long(1234),
		}},
		{"an integer over 2^32-1, the plugin's limit", Waits, 1 << 32, "", map[string]any{"int64": int64(1 << 32), "wire type L": Long(1 << 32)}},
		{"an integer over 2^32-1, the plugin's limit", Waits, tenYears.Milliseconds(), "", map[string]any{"ten years": tenYears.Milliseconds()}},
		{"more than ten years", Quarantine, 0, "longer than the longest", map[string]any{
			"int64": tenYears.Milliseconds() + 1, "most": int64(math.MaxInt64), "double": 1e300, "text": "315360000001", "exponent in text": "1e999",
		}},
		{"the integer 0", Direct, 0, "", map[string]any{
			"int8": int8(0), "byte": byte(0), "int16": int16(0), "uint16": uint16(0), "int32": int32(0), "uint32": uint32(0), "int64": int64(0),
		}},
		{"a negative number", AtOnce, 0, "", map[string]any{
			"int8": int8(-1), "int16": int16(-1000), "int32": int32(-5000), "int64": int64(math.MinInt64),
			"float": float32(-1), "double": -1e300, "decimal": amqp.Decimal{Scale: 1, Value: -10}, "text": "-5", "exponent in text": "-1e999",
		}},
		{"a float or double", Parked, 1234, "", map[string]any{"float": float32(1234.5), "double": 1234.99, "whole": 1234.0}},
		{"a float or double that equals a tier", floatFate, 1000, "", map[string]any{"float": float32(1000), "double": 1000.0}},
		{"a float or double between 1 and -1", AtOnce, 0, "", map[string]any{"double": 0.9, "negative": -0.9, "float": float32(0.5)}},
		{"a decimal", Parked, 1234, "", map[string]any{"whole": amqp.Decimal{Value: 1234}, "cut off": amqp.Decimal{Scale: 2, Value: 123499}}},
		{"a decimal", Parked, 1000, "", map[string]any{"equal to a tier": amqp.Decimal{Value: 1000}}},
		{"an integer in text", Parked, 1234, "", map[string]any{"plain": "1234", "signed": "+1234", "leading zeros": "001234"}},
		{"an integer in text", Parked, 1000, "", map[string]any{"equal to a tier": "1000"}},
		{"an integer in text", AtOnce, 0, "", map[string]any{"zero": "0"}},
		{"a fraction or an exponent in text", Parked, 1234, "", map[string]any{"fraction": "1234.9", "exponent": "1.234e3"}},
		{"text with blanks around the number", Parked, 1234, "", map[string]any{"blanks": " 1234 ", "end of line": "1234\r\n"}},
		{"text that is no number", Quarantine, 0, "is not a number of milliseconds", map[string]any{
			"words": "5 seconds", "unit": "5s", "hexadecimal": "0x3e8", "hexadecimal exponent": "0x10p4", "underscore": "1_000", "comma": "1,000", "NaN": "NaN", "infinity": "Infinity", "one blank inside": "1 000",
		}},
		{"empty text", Quarantine, 0, `" is not a number`, map[string]any{"empty": "", "blank": " "}},
		{"NaN or infinity, in a float or double", Refused, 0, "", map[string]any{"NaN": math.NaN(), "infinity": math.Inf(1), "float": float32(math.Inf(-1))}},
		{"a boolean, byte array, array or table", Quarantine, 0, "is not a number", map[string]any{
			"boolean": true, "bytes": []byte("1234"), "array": []any{int32(1234)}, "table": amqp.Table{"ms": int32(1234)},
		}},
		{"a timestamp", Quarantine, 0, "a timestamp is not a number", map[string]any{"some day": time.Unix(1_900_000_000, 0)}},
		{"void", AtOnce, 0, "", map[string]any{"void": nil}},
	} {
		for name, value := range c.values {
			all = append(all, Case{
				Row: c.row, Name: c.row + ": " + name, Fate: c.fate, Reason: c.reason, After: time.Duration(c.after) * time.Millisecond,
				Headers: func(time.Time) amqp.Table { return amqp.Table{"x-delay": value} },
			})
		}
	}
	all = append(all, instants()...)
	return append(all, inBrokersNames(all)...)
}

// Rows of what is asked for in the names of RabbitMQ's own delays.
const (
	rowDeliveryTime  = "`x-opt-delivery-time`"
	rowDeliveryDelay = "`x-opt-delivery-delay`"
	rowDelayOfATier  = "`x-opt-delivery-delay`, equal to a tier, or 0"
	rowBesideATier   = "one of these, and `x-delay` an integer that equals a tier, or 0"
)

// inBrokersNames are cases with x-opt-delivery-time and x-opt-delivery-delay: each value means
// the same as in our own headers, but no binding of an entry exchange knows them.
func inBrokersNames(ours []Case) []Case {
	var all []Case
	for _, c := range ours {
		headers := c.Headers(time.Now())
		if len(headers) != 1 {
			continue
		}
		if _, is := headers["x-deliver-at"]; is {
			all = append(all, c.renamed(rowDeliveryTime, "x-deliver-at", "x-opt-delivery-time"))
		}
		if _, is := headers["x-delay"]; !is {
			continue
		}
		row := rowDeliveryDelay
		if c.Fate == Tier {
			row, c.Fate = rowDelayOfATier, Parked
		}
		if c.Fate == Direct {
			row, c.Fate = rowDelayOfATier, AtOnce
		}
		all = append(all, c.renamed(row, "x-delay", "x-opt-delivery-delay"))
	}
	return append(all, severalHeaders()...)
}

// severalHeaders are cases in which headers contradict each other.
func severalHeaders() []Case {
	const several = "several of the four headers"
	soon := func(now time.Time) time.Time { return now.Add(1234 * time.Millisecond).Truncate(time.Millisecond) }
	later := func(now time.Time) int64 { return now.Add(time.Hour).UnixMilli() }
	return []Case{
		{Row: several, Name: "all four", Fate: Parked, At: soon, Headers: func(now time.Time) amqp.Table {
			return amqp.Table{"x-deliver-at": soon(now).UnixMilli(), "x-opt-delivery-time": later(now), "x-delay": int32(9999), "x-opt-delivery-delay": int32(9999)}
		}},
		{Row: several, Name: "x-opt-delivery-time and delays", Fate: Parked, At: soon, Headers: func(now time.Time) amqp.Table {
			return amqp.Table{"x-opt-delivery-time": soon(now).UnixMilli(), "x-delay": int32(9999), "x-opt-delivery-delay": int32(9999)}
		}},
		{Row: several, Name: "both delays", Fate: Parked, After: 1234 * time.Millisecond, Headers: func(time.Time) amqp.Table {
			return amqp.Table{"x-delay": int32(1234), "x-opt-delivery-delay": int32(9999)}
		}},
		{Row: several, Name: "void ones", Fate: Parked, After: 1234 * time.Millisecond, Headers: func(time.Time) amqp.Table {
			return amqp.Table{"x-deliver-at": nil, "x-opt-delivery-time": nil, "x-delay": nil, "x-opt-delivery-delay": int32(1234)}
		}},
		{Row: several, Name: "one that would be wrong by itself", Fate: Parked, At: soon, Headers: func(now time.Time) amqp.Table {
			return amqp.Table{"x-deliver-at": soon(now).UnixMilli(), "x-opt-delivery-time": "later"}
		}},
		{Row: "an instant in microseconds", Name: "microseconds", Fate: Quarantine, Reason: "looks like microseconds", Headers: func(now time.Time) amqp.Table {
			return amqp.Table{"x-opt-delivery-time": now.UnixMicro()}
		}},
		{Row: rowBesideATier, Name: "a tier and an instant in the past", Fate: Tier, After: time.Second, Headers: func(time.Time) amqp.Table {
			return amqp.Table{"x-delay": int32(1000), "x-opt-delivery-time": int64(1)}
		}},
		{Row: rowBesideATier, Name: "0 and a delay", Fate: Direct, Headers: func(time.Time) amqp.Table {
			return amqp.Table{"x-delay": int32(0), "x-opt-delivery-delay": int64(1234)}
		}},
	}
}

// renamed is the case with its value in another header.
func (c Case) renamed(row, from, to string) Case {
	headers := c.Headers
	c.Row, c.Name, c.Reason = row, to+": "+c.Name, strings.ReplaceAll(c.Reason, from, to)
	c.Headers = func(now time.Time) amqp.Table { return amqp.Table{to: headers(now)[from]} }
	return c
}

// instants are the cases with x-deliver-at, and those without any header.
func instants() []Case {
	soon := func(now time.Time) time.Time { return now.Add(1234 * time.Millisecond).Truncate(time.Millisecond) }
	fullSecond := func(now time.Time) time.Time { return now.Add(3 * time.Second).Truncate(time.Second) }
	farthest := func(now time.Time) time.Time { return now.Add(tenYears - time.Hour).Truncate(time.Millisecond) }
	var all []Case
	for _, c := range []struct {
		row, name string
		headers   func(now time.Time) amqp.Table
		fate      Fate
		at        func(now time.Time) time.Time
		after     time.Duration
		reason    string
	}{
		{"an instant, as a number", "int64", at(func(now time.Time) any { return soon(now).UnixMilli() }), Parked, soon, 0, ""},
		{"an instant, as a number", "wire type L", at(func(now time.Time) any { return Long(soon(now).UnixMilli()) }), Parked, soon, 0, ""},
		{"an instant, as a number", "double", at(func(now time.Time) any { return float64(soon(now).UnixMilli()) + 0.5 }), Parked, soon, 0, ""},
		{"an instant, as a number", "text", at(func(now time.Time) any { return strconv.FormatInt(soon(now).UnixMilli(), 10) }), Parked, soon, 0, ""},
		{"an instant, as a number", "ten years", at(func(now time.Time) any { return farthest(now).UnixMilli() }), Waits, farthest, 0, ""},
		{"an instant, as a timestamp", "full second", at(func(now time.Time) any { return fullSecond(now) }), Parked, fullSecond, 0, ""},
		{"an instant in the past, 0, or negative", "just now", at(func(now time.Time) any { return now.Add(-time.Second).UnixMilli() }), AtOnce, nil, 0, ""},
		{"an instant in the past, 0, or negative", "0", at(func(time.Time) any { return int8(0) }), AtOnce, nil, 0, ""},
		{"an instant in the past, 0, or negative", "negative", at(func(time.Time) any { return int64(math.MinInt64) }), AtOnce, nil, 0, ""},
		{"an instant in the past, 0, or negative", "timestamp", at(func(now time.Time) any { return now.Add(-time.Hour) }), AtOnce, nil, 0, ""},
		{"Unix seconds instead of milliseconds", "int32", at(func(time.Time) any { return int32(1_900_000_000) }), AtOnce, nil, 0, ""},
		{"an instant more than ten years away", "int64", at(func(now time.Time) any { return now.Add(tenYears + time.Hour).UnixMilli() }), Quarantine, nil, 0, "further away than the longest"},
		{"an instant more than ten years away", "milliseconds as a timestamp", at(func(now time.Time) any { return time.Unix(now.UnixMilli(), 0) }), Quarantine, nil, 0, "further away"},
		{"an instant more than ten years away", "last timestamp", at(func(time.Time) any { return time.Unix(math.MaxInt64, 0) }), Quarantine, nil, 0, "further away"},
		{"an instant that is no number", "RFC 3339", at(func(now time.Time) any { return now.Format(time.RFC3339) }), Quarantine, nil, 0, "header x-deliver-at: "},
		{"an instant that is no number", "boolean", at(func(time.Time) any { return true }), Quarantine, nil, 0, "a boolean is not a number"},
		{"both headers", "between tiers", both(func(now time.Time) any { return soon(now).UnixMilli() }, int64(3_600_000)), Parked, soon, 0, ""},
		{"both headers", "no use of x-delay", both(func(now time.Time) any { return soon(now).UnixMilli() }, "later"), Parked, soon, 0, ""},
		{"both headers, x-delay an integer that equals a tier, or 0", "tier", both(func(now time.Time) any { return now.Add(time.Hour).UnixMilli() }, int32(1000)), Tier, nil, time.Second, ""},
		{"both headers, x-delay an integer that equals a tier, or 0", "0", both(func(now time.Time) any { return now.Add(time.Hour).UnixMilli() }, int32(0)), Direct, nil, 0, ""},
		{"both headers, x-deliver-at void", "between tiers", both(func(time.Time) any { return nil }, int32(1234)), Parked, nil, 1234 * time.Millisecond, ""},
		{"neither header", "no headers", func(time.Time) amqp.Table { return nil }, AtOnce, nil, 0, ""},
		{"neither header", "others", func(time.Time) amqp.Table { return amqp.Table{"delay": int32(1000)} }, AtOnce, nil, 0, ""},
		{"the name in other letters", "X-Delay", func(time.Time) amqp.Table { return amqp.Table{"X-Delay": int32(1000)} }, AtOnce, nil, 0, ""},
	} {
		all = append(all, Case{Row: c.row, Name: c.row + ": " + c.name, Headers: c.headers, Fate: c.fate, At: c.at, After: c.after, Reason: c.reason})
	}
	return all
}

func at(value func(now time.Time) any) func(time.Time) amqp.Table {
	return func(now time.Time) amqp.Table { return amqp.Table{"x-deliver-at": value(now)} }
}

func both(deliverAt func(now time.Time) any, delay any) func(time.Time) amqp.Table {
	return func(now time.Time) amqp.Table { return amqp.Table{"x-deliver-at": deliverAt(now), "x-delay": delay} }
}

// SameAsTheDocument fails the test where docs/wire-contract.md, relative to the
// test's folder, has other rows than there are cases.
func SameAsTheDocument(t testing.TB, file string) {
	t.Helper()
	var rows []string
	for _, c := range Cases(false) {
		rows = append(rows, c.Row)
	}
	SameRows(t, file, Heading, rows)
}
