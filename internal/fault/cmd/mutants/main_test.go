package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args      []string
		code      int
		out, errs string // a part of what is printed
	}{
		{[]string{"-duration", "soon"}, exitUsage, "", `"soon"`},
		{[]string{"-bogus"}, exitUsage, "", "-bogus"},
		{[]string{"all"}, exitUsage, "", `"all"`},
		{[]string{"-only", "nothing like that"}, exitUsage, "", "-list names them"},
		{[]string{"-list"}, 0, "consumers do not ask Redis\n", ""},
		{[]string{"-list", "-only", "nack"}, 0, "a nack counts as a confirm\n", ""},
	} {
		var out, errs bytes.Buffer
		code := run(tc.args, &out, &errs)
		if code != tc.code || !strings.Contains(out.String(), tc.out) || !strings.Contains(errs.String(), tc.errs) {
			t.Errorf("%v: exit code %d, printed %q and %q", tc.args, code, &out, &errs)
		}
	}
}
