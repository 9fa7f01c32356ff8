package servertest

import (
	"bytes"
	"io"
	"os"
	"testing"
)

// Printed returns what a function prints.
func Printed(t testing.TB, run func()) string {
	t.Helper()
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	usual := os.Stdout
	os.Stdout = out
	run()
	os.Stdout = usual
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	if _, err := io.Copy(&said, in); err != nil {
		t.Fatal(err)
	}
	return said.String()
}
