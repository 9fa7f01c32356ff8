package servertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/rabbitmq"
)

// SingleRabbitMQ starts a single node of the test's own, whatever the layout under test.
func SingleRabbitMQ(t testing.TB) *rabbitmq.Node {
	t.Helper()
	server, err := servers.StartRabbitMQ(t.Context(), servers.Config{RabbitMQLayout: servers.Single})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return server
}

// Silence has a quorum queue of the virtual host / answer nothing, as one without a majority,
// until resume is called.
func Silence(t testing.TB, server *rabbitmq.Node, queue string) (resume func()) {
	t.Helper()
	control := func(what string) {
		t.Helper()
		if _, err := server.Control(t.Context(), "eval", fmt.Sprintf(`sys:%s(whereis('%%2F_%s')).`, what, queue)); err != nil {
			t.Fatal(err)
		}
	}
	control("suspend")
	return func() { control("resume") }
}
