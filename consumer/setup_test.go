package consumer_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/consumer"
)

// wantEnd expects Run to end by itself with want, and to say each of says.
func wantEnd(t *testing.T, c consumer.Config, want error, says ...string) {
	t.Helper()
	err := start(t, c).await()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("got %v, want it to say %q", err, s)
		}
	}
}

func TestTheTopologyWasNeverApplied(t *testing.T) {
	t.Parallel()
	b := newBareBroker(t)
	wantEnd(t, b.config(acknowledge), consumer.ErrMissing, b.topology.Quarantine(), "delaybridge topology apply")
	var gone *amqp.Error
	if _, err := b.channel().QueueDeclarePassive(b.queue, true, false, false, false, nil); !errors.As(err, &gone) || gone.Code != amqp.NotFound {
		t.Errorf("the queue was declared all the same: %v", err)
	}
}

func TestTheQueueDoesNotExist(t *testing.T) {
	t.Parallel()
	c := newBroker(t).config(acknowledge)
	c.Bind = nil
	wantEnd(t, c, consumer.ErrNoQueue, `"billing"`, "routing keys to bind it")
}

func TestTheQueueExistsWithOtherArguments(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	if _, err := b.channel().QueueDeclare(b.queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	c := b.config(acknowledge)
	wantEnd(t, c, consumer.ErrQueueDiffers, `"billing"`, "x-dead-letter-exchange", "leaving out the binding keys")

	c.Bind = nil // used as it is
	r := start(t, c)
	if err := b.channel().QueueBind(b.queue, key, b.topology.ReadyExchange(), false, nil); err != nil {
		t.Fatal(err)
	}
	b.publish(numbered(1)...)
	r.observe(1)
}

func TestWrongCredentials(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	for name, change := range map[string][2]string{
		"password":     {"guest:guest", "guest:wrong-secret"},
		"virtual host": {"/" + b.topology.Prefix(), "/nowhere"},
	} {
		c := b.config(acknowledge)
		if c.AMQPURL = strings.Replace(b.url, change[0], change[1], 1); c.AMQPURL == b.url {
			t.Fatalf("%s: %s is not in the URL", name, change[0])
		}
		wantEnd(t, c, consumer.ErrConfiguration)
	}
}

func TestNoPermission(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	user := b.restrictedUser(`{"configure":"^$","write":".*","read":".*"}`)
	c := b.config(acknowledge)
	c.AMQPURL = user
	wantEnd(t, c, consumer.ErrForbidden, "billing", "set_permissions")
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	c := newBroker(t).config(acknowledge)
	c.AMQPURL, c.StartWithin = "amqp://guest:guest@127.0.0.1:1/", time.Millisecond
	wantEnd(t, c, consumer.ErrUnreachable, "127.0.0.1:1")
}
