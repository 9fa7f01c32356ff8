package once_test

import (
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/consumer/internal/once"
	"github.com/delaybridge/delaybridge/consumer/ledger"
)

// What queue and ID say together, nothing else says.
func TestLedgerKeysAreUnambiguous(t *testing.T) {
	t.Parallel()
	parts := []string{"a", "b", "a/b", "b/c", "/", "/a", "a/", "//", "\x01", "\x01a", "a/b/c", "/\x03a/b"}
	seen := map[string][2]string{}
	for _, queue := range parts {
		for _, id := range append(parts, "c") {
			key := once.Key(queue, id)
			if other, taken := seen[key]; taken {
				t.Errorf("queue %q and ID %q have the key of queue %q and ID %q", queue, id, other[0], other[1])
			}
			seen[key] = [2]string{queue, id}
		}
	}
	if key := once.Key("billing", "o/1"); key != "billing/o/1" {
		t.Errorf("the key is %q: marks of older releases are lost", key)
	}
	for _, letter := range []string{"q", "/"} {
		long := strings.Repeat(letter, 255)
		if err := ledger.CheckKey(once.Key(long, long)); err != nil {
			t.Error(err)
		}
	}
}
