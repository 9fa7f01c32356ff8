package databases_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"syscall"
	"testing"

	"github.com/delaybridge/delaybridge/internal/servers/databases"
)

// That a query works is for the benchmark to show, which has a driver.
func TestPostgreSQLListensUntilItIsStopped(t *testing.T) {
	t.Parallel()
	p, err := databases.StartPostgreSQL(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(p.URL())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", address.Host)
	if err != nil {
		t.Error(err)
	} else {
		_ = conn.Close()
	}
	if err := p.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", address.Host); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after Stop: %v, want a refusal", err)
	}
}
