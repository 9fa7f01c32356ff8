package servers_test

import (
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/internal/servers"
)

func TestServersThatCannotBeHadAreNamed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config servers.Config
		want   string
	}{
		"an unknown choice": {servers.Config{Choice: "bogus"}, `DELAYBRIDGE_SERVERS="bogus"`},
		// Without an engine the error names that instead.
		"containers that are not at hand": {
			servers.Config{Choice: servers.Containers, RabbitMQImage: "delaybridge-test/none:1", RedisImage: "delaybridge-test/none:2"},
			"none",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := servers.Start(t.Context(), test.config)
			if err == nil || !strings.Contains(err.Error(), test.want) && !strings.Contains(err.Error(), "no container engine") {
				t.Errorf("got %v, want an error that names %s", err, test.want)
			}
		})
	}
}
