package fault_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/delaybridge/delaybridge/internal/fault"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

// TestMain plays a part where a run has started this program for that.
func TestMain(m *testing.M) {
	if code, asked := fault.Role(); asked {
		os.Exit(code)
	}
	// A link that is cut while bytes are on their way leaves toxiproxy's goroutine behind.
	servertest.Main(m, goleak.IgnoreTopFunction("github.com/Shopify/toxiproxy/v2/toxics.(*NoopToxic).Pipe"))
}
