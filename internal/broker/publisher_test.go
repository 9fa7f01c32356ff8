package broker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

func TestPublisherKeepsTheOrder(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	ch := channel(t, env.AMQPURL)
	declare(t, ch, "q", quorum())
	p, l := publisher(t, connect(t, env.AMQPURL)), newLedger()
	var want []string
	for i := range 3000 {
		id := strconv.Itoa(i)
		want = append(want, id)
		if err := l.publish(t.Context(), p, "", "q", id); err != nil {
			t.Fatal(err)
		}
	}
	for id, err := range l.await(t) {
		if err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	if got := drain(t, ch, "q"); !slices.Equal(got, want) {
		t.Errorf("messages are in another order than published: %d of %d", len(got), len(want))
	}
}

// The broker may return thousands of messages before it confirms the first.
func TestEveryReturnMeetsItsMessage(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	ch := channel(t, env.AMQPURL)
	declare(t, ch, "q", quorum())
	p, l := publisher(t, connect(t, env.AMQPURL)), newLedger()
	const n = 12_000
	lost := func(i int) bool { return i%2 == 1 || i > n/2 }
	for i := range n {
		key := "q"
		if lost(i) {
			key = "nobody's"
		}
		if err := l.publish(t.Context(), p, "", key, strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	answers := l.await(t)
	for i := range n {
		switch err := answers[strconv.Itoa(i)]; {
		case lost(i) && !errors.Is(err, broker.ErrUnroutable):
			t.Fatalf("%d, which nobody has bound: got %v, want ErrUnroutable", i, err)
		case !lost(i) && err != nil:
			t.Fatalf("%d: %v", i, err)
		}
	}
}

func TestSameIDTwice(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	ch := channel(t, env.AMQPURL)
	declare(t, ch, "q", quorum())
	p := publisher(t, connect(t, env.AMQPURL))
	routed, lost := make(chan error, 1), make(chan error, 1)
	for key, answer := range map[string]chan error{"q": routed, "nobody's": lost} {
		out := broker.Outgoing{RoutingKey: key, Mandatory: true, Publishing: amqp.Publishing{MessageId: "one"}}
		if err := p.Publish(t.Context(), out, func(err error) { answer <- err }); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-routed; err != nil {
		t.Errorf("the first: %v", err)
	}
	if err := <-lost; !errors.Is(err, broker.ErrUnroutable) {
		t.Errorf("the second: got %v, want ErrUnroutable", err)
	}
}

// A full queue refuses at once, while a quorum queue takes its time: so the
// broker refuses a message before it confirms an earlier one, and may then
// confirm "all up to" a later one. Those who listen for the library's confirms
// hear that the refused message was confirmed.
func TestRefusedStaysRefused(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	ch := channel(t, env.AMQPURL)
	declare(t, ch, "q", quorum())
	full(t, ch, "full")
	p, l := publisher(t, connect(t, env.AMQPURL)), newLedger()
	const rounds = 200
	for i := range rounds {
		for n, key := range []string{"q", "full", "q"} {
			if err := l.publish(t.Context(), p, "", key, fmt.Sprint(key, i, "-", n)); err != nil {
				t.Fatal(err)
			}
		}
		l.await(t)
	}
	for id, err := range l.await(t) {
		switch full := strings.HasPrefix(id, "full"); {
		case full && !errors.Is(err, broker.ErrRefused):
			t.Errorf("%s, which the queue has refused: got %v, want ErrRefused", id, err)
		case !full && err != nil:
			t.Errorf("%s: %v", id, err)
		}
	}
	if got := len(drain(t, ch, "q")); got != 2*rounds {
		t.Errorf("%d messages in the queue, want %d", got, 2*rounds)
	}
}

func TestMissingExchangeClosesTheChannelAndAnotherIsOpened(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	ch := channel(t, env.AMQPURL)
	declare(t, ch, "q", quorum())
	p, l := publisher(t, connect(t, env.AMQPURL)), newLedger()
	for i := range 5000 {
		exchange, key := "", "q"
		if i == 1000 || i == 3000 {
			exchange, key = "not.there", "k"
		}
		if err := l.publish(t.Context(), p, exchange, key, strconv.Itoa(i)); err != nil && !errors.Is(err, broker.ErrUnconfirmed) {
			t.Fatalf("%d: %v", i, err)
		}
	}
	answers := l.await(t)
	for _, id := range []string{"1000", "3000"} {
		if err := answers[id]; !errors.Is(err, broker.ErrUnconfirmed) || !errors.Is(err, broker.ErrMissing) {
			t.Errorf("to an exchange that is not there: got %v, want ErrUnconfirmed and ErrMissing", err)
		}
	}
	confirmedMessagesArrived(t, answers, drain(t, ch, "q"))
	if err := l.publish(t.Context(), p, "", "q", "after"); err != nil {
		t.Fatal(err)
	}
	if err := l.await(t)["after"]; err != nil {
		t.Errorf("over the next channel: %v", err)
	}
}

// What was lost with a channel can be published again before anything that
// comes after it.
func TestNothingOvertakesWhatWasLostInASequence(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	ch := channel(t, env.AMQPURL)
	declare(t, ch, "q", quorum())
	p, l := broker.NewSequence(connect(t, env.AMQPURL)), newLedger()
	t.Cleanup(p.Close)
	const broken = 100
	deadline := time.Now().Add(patience)
	for i := 0; ; i++ {
		if time.Now().After(deadline) {
			t.Fatal("the channel was lost, and nobody was told")
		}
		exchange, key := "", "q"
		if i == broken {
			exchange, key = "not.there", "k"
		}
		err := l.publish(t.Context(), p, exchange, key, strconv.Itoa(i))
		if err == nil || errors.Is(err, broker.ErrUnconfirmed) {
			continue
		}
		if !errors.Is(err, broker.ErrNotSent) {
			t.Fatalf("%d: %v", i, err)
		}
		// Before this answer, all messages of the lost channel have theirs.
		if got := len(l.await(t)); got != i+1 {
			t.Errorf("%d of %d messages have an answer", got, i+1)
		}
		break
	}
	if err := l.publish(t.Context(), p, "", "q", "after"); err != nil {
		t.Fatal(err)
	}
	answers := l.await(t)
	if err := answers["after"]; err != nil {
		t.Errorf("over the next channel: %v", err)
	}
	confirmedMessagesArrived(t, answers, drain(t, ch, "q"))
}

// confirmedMessagesArrived also checks that the others were said to be
// unconfirmed or not sent.
func confirmedMessagesArrived(t *testing.T, answers map[string]error, arrived []string) {
	t.Helper()
	there := map[string]bool{}
	for _, id := range arrived {
		there[id] = true
	}
	confirmed := 0
	for id, err := range answers {
		switch {
		case err == nil:
			if confirmed++; !there[id] {
				t.Errorf("%s was confirmed and is lost", id)
			}
		case errors.Is(err, broker.ErrNotSent):
			if there[id] {
				t.Errorf("%s was not sent, they say, and arrived: %v", id, err)
			}
		case !errors.Is(err, broker.ErrUnconfirmed):
			t.Errorf("%s: got %v, want ErrUnconfirmed or ErrNotSent", id, err)
		}
	}
	t.Logf("%d confirmed, %d not, %d arrived", confirmed, len(answers)-confirmed, len(arrived))
}

func TestPublishGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	conn, err := broker.New(broker.Config{URL: "amqp://guest:guest@127.0.0.1:1/"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err = broker.NewPublisher(conn).Publish(ctx, broker.Outgoing{}, func(error) { t.Error("answered") })
	if !errors.Is(err, broker.ErrNotSent) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want ErrNotSent and the context's error", err)
	}
}

func TestInvalidHeadersLeaveTheChannelAlone(t *testing.T) {
	t.Parallel()
	env := servertest.ForTest(t)
	ch := channel(t, env.AMQPURL)
	declare(t, ch, "q", quorum())
	p, l := publisher(t, connect(t, env.AMQPURL)), newLedger()
	if err := l.publish(t.Context(), p, "", "q", "before"); err != nil {
		t.Fatal(err)
	}
	wrong := broker.Outgoing{RoutingKey: "q", Publishing: amqp.Publishing{Headers: amqp.Table{"x": struct{}{}}}}
	if err := p.Publish(t.Context(), wrong, func(error) { t.Error("answered") }); !errors.Is(err, broker.ErrNotSent) {
		t.Errorf("got %v, want ErrNotSent", err)
	}
	if err := l.await(t)["before"]; err != nil {
		t.Errorf("the message before: %v", err)
	}
}
