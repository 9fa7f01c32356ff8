package redisbridge_test

import (
	"strconv"
	"testing"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/server"
)

// Of several servers the one counts that is nearest to its limit, and not the one that uses most.
func TestFullestServerCounts(t *testing.T) {
	t.Parallel()
	for name, layout := range map[string]servers.Layout{"single": servers.Single, "cluster": servers.Clustered} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const least, more = 256 << 20, 1 << 30
			url := servertest.RedisForTest(t, layout).URL()
			client, err := redisbridge.NewClient(url)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Close() })
			m, err := server.Fullest(t.Context(), client)
			if err != nil || m.Used == 0 || m.Most != 0 {
				t.Fatalf("without a limit: %+v, %v", m, err)
			}
			primaries := servertest.Primaries(t, url)
			for i, primary := range primaries {
				limit := more
				if i == len(primaries)-1 {
					limit = least
				}
				if err := primary.ConfigSet(t.Context(), "maxmemory", strconv.Itoa(limit)).Err(); err != nil {
					t.Fatal(err)
				}
			}
			m, err = server.Fullest(t.Context(), client)
			if err != nil || m.Used == 0 || m.Used > m.Most || m.Most != least {
				t.Errorf("%+v, %v; want one with a limit of %d", m, err, least)
			}
		})
	}
}
