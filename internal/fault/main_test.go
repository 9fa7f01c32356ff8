package fault_test

import (
	"os"
	"testing"

	"github.com/delaybridge/delaybridge/internal/fault/roles"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

// TestMain plays a part where a run has started this program for that.
func TestMain(m *testing.M) {
	if code, asked := roles.Play(); asked {
		os.Exit(code)
	}
	servertest.Main(m)
}
