package redis_test

import (
	"context"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/consumer/ledger/ledgertest"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

func TestMain(m *testing.M) {
	ledgertest.Victim(func(_ context.Context, address string) (ledgertest.Subject, error) {
		url, prefix, _ := strings.Cut(address, " ")
		client, err := servertest.NewRedisClient(url)
		if err != nil {
			return ledgertest.Subject{}, err
		}
		return subject(client, prefix)
	})
	servertest.Main(m)
}
