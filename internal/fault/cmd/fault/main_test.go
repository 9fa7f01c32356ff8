package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/internal/fault/scenarios"
)

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args []string
		code int
		says string // on standard error
	}{
		{[]string{"-duration", "soon"}, exitUsage, `"soon"`},
		{[]string{"-duration", "-5s"}, exitUsage, "use more than 0"},
		{[]string{"-bogus"}, exitUsage, "-bogus"},
		{[]string{"ten", "minutes"}, exitUsage, `"ten"`},
		{[]string{"-only", "redis kill"}, exitUsage, "-list names them"},
		{[]string{"-store", "oracle"}, exitUsage, "use one of sqlite, postgres, mysql"},
		{[]string{"-check", "no/such/folder"}, exitFailed, "no/such/folder"},
		{[]string{"-list"}, 0, ""},
	} {
		var out, errs bytes.Buffer
		if code := run(tc.args, &out, &errs); code != tc.code || !strings.Contains(errs.String(), tc.says) {
			t.Errorf("%v: exit code %d, %q; want %d and %q", tc.args, code, errs.String(), tc.code, tc.says)
		}
		if want := strings.Join(scenarios.Names(), "\n") + "\n"; tc.code == 0 && out.String() != want {
			t.Errorf("%v: printed %q, want %q", tc.args, out.String(), want)
		}
	}
}
