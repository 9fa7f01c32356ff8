package servers_test

import (
	"context"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/rabbitmq"
)

// startRabbitMQ starts a server for one test.
func startRabbitMQ(t *testing.T) *rabbitmq.Node {
	t.Helper()
	r, err := servers.StartRabbitMQ(t.Context(), servers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// openChannel connects to a server that answers.
func openChannel(t *testing.T, r *rabbitmq.Node) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(r.AMQPURL())
	if err != nil {
		t.Fatal(err)
	}
	// The server may have been killed meanwhile.
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

// One server for both: to start one costs more than the rest.
func TestRabbitMQ(t *testing.T) {
	t.Parallel()
	r := startRabbitMQ(t)
	t.Run("paused, it answers again after Resume", func(t *testing.T) { answersAfterResume(t, r) })
	t.Run("keeps durable messages through Restart and Kill", func(t *testing.T) { keepsMessages(t, r) })
}

func keepsMessages(t *testing.T, r *rabbitmq.Node) {
	t.Helper()
	ch := openChannel(t, r)
	arguments := amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}
	if _, err := ch.QueueDeclare("orders", true, false, false, false, arguments); err != nil {
		t.Fatal(err)
	}
	// Without this the queue would be too young to survive: see rabbitmq.Node.
	if err := r.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	ch = openChannel(t, r)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	confirmation, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "", "orders", true, false,
		amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("42")})
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := confirmation.WaitContext(t.Context()); err != nil || !ok {
		t.Fatalf("not confirmed: %v", err)
	}

	url := r.AMQPURL()
	if err := r.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if conn, err := amqp.Dial(url); err == nil {
		_ = conn.Close()
		t.Fatal("a killed server answers")
	}
	if err := r.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}

	if r.AMQPURL() != url {
		t.Errorf("after the restart it is at %s, before at %s", r.AMQPURL(), url)
	}
	delivery, ok, err := openChannel(t, r).Get("orders", true)
	if err != nil || !ok || string(delivery.Body) != "42" {
		t.Fatalf("got %q (%t, %v), want the message back", delivery.Body, ok, err)
	}
}

func answersAfterResume(t *testing.T, r *rabbitmq.Node) {
	t.Helper()
	if err := r.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	config := amqp.Config{Dial: amqp.DefaultDial(time.Second)}
	if conn, err := amqp.DialConfig(r.AMQPURL(), config); err == nil {
		_ = conn.Close()
		t.Fatal("a paused server answers")
	}
	if err := r.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	openChannel(t, r)
}
