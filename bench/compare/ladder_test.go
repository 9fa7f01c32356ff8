package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// matches is how a topic exchange compares a routing key with a binding key of
// single words, "*" and a "#" at its end.
func matches(binding, key string) bool {
	want, got := strings.Split(binding, "."), strings.Split(key, ".")
	for i, word := range want {
		switch {
		case word == "#":
			return true
		case i >= len(got) || word != "*" && word != got[i]:
			return false
		}
	}
	return len(want) == len(got)
}

// waits follows a message through the exchanges and returns for how long it
// waits in the queues it enters.
func waits(t *testing.T, seconds uint32) time.Duration {
	t.Helper()
	var sum time.Duration
	key := ladderKey(seconds)
	for level := firstLevel(seconds); level >= 0; level-- {
		wait, pass := bindingKeys(level)
		if matches(wait, key) == matches(pass, key) {
			t.Fatalf("%d s on level %d: goes to the queue and past it, or nowhere, with %s", seconds, level, key)
		}
		if matches(wait, key) {
			sum += ttlOf(level)
		}
	}
	return sum
}

func TestLadderWaitsOnTheLevelsOfTheBits(t *testing.T) {
	t.Parallel()
	cases := []uint32{0, 1, 2, 3, 10, 1<<levels - 1}
	for level := range levels {
		cases = append(cases, 1<<level, 1<<level|1, 1<<level-1)
	}
	for range 1000 {
		cases = append(cases, 1+rand.Uint32N(1<<levels-1))
	}
	for _, seconds := range cases {
		if got, want := waits(t, seconds), time.Duration(seconds)*time.Second; got != want {
			t.Errorf("a message of %v waits for %v", want, got)
		}
	}
}

func TestLadderKeys(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		delay   time.Duration
		seconds uint32
		first   int
		bits    string
	}{
		{time.Millisecond, 1, 0, "1"},
		{time.Second, 1, 0, "1"},
		{time.Second + time.Millisecond, 2, 1, "10"},
		{9001 * time.Millisecond, 10, 3, "1010"},
		{12 * time.Second, 12, 3, "1100"},
	} {
		seconds := wholeSeconds(test.delay)
		if first := firstLevel(seconds); seconds != test.seconds || first != test.first {
			t.Errorf("%v: %d s from level %d, want %d s from level %d", test.delay, seconds, first, test.seconds, test.first)
		}
		padded := fmt.Sprintf("%0*s", levels, test.bits)
		if got, want := ladderKey(seconds), strings.Join(strings.Split(padded, ""), ".")+"."+routingKey; got != want {
			t.Errorf("%v: key %s, want %s", test.delay, got, want)
		}
	}
}
