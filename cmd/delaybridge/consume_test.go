package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/topology"
)

// dueMessages declares the topology, a queue named "closing", and puts messages
// with the given IDs into it as if they were due.
func dueMessages(t *testing.T, env servertest.Env, ids ...string) {
	t.Helper()
	described, err := topology.New(topology.Config{Prefix: env.Prefix, Tiers: []time.Duration{time.Second}, Lead: time.Second, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := amqp.Dial(env.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := described.Apply(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	ch, err := conn.Channel()
	if err == nil {
		_, err = ch.QueueDeclare("closing", true, false, false, false, nil)
	}
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		m := message.Message{ID: id, Body: []byte{0xff}}
		confirmed, err := ch.PublishWithDeferredConfirm("", "closing", true, false, m.Publishing(message.Journey{}))
		if err != nil || !confirmed.Wait() {
			t.Fatalf("publish %s: %v", id, err)
		}
	}
}

// onBind declares a queue as 'consume --bind' does, so that nothing becomes due
// before it is bound.
func onBind(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: bind QUEUE KEY")
	}
	conn, err := amqp.Dial(ts.Getenv("DELAYBRIDGE_AMQP_URL"))
	ts.Check(err)
	defer conn.Close()
	ch, err := conn.Channel()
	ts.Check(err)
	prefix := ts.Getenv("DELAYBRIDGE_PREFIX")
	_, err = ch.QueueDeclare(args[0], true, false, false, false, amqp.Table{
		"x-queue-type": "quorum", "x-delivery-limit": int64(20), "x-dead-letter-exchange": prefix + ".quarantine",
		"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
	})
	ts.Check(err)
	ts.Check(ch.QueueBind(args[0], args[1], prefix+".ready", false, nil))
}

func TestConsumeInterrupted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want int
	}{
		"without a count":        {nil, cli.ExitOK},
		"before the count":       {[]string{"--count", "5"}, cli.ExitInterrupted},
		"at the count":           {[]string{"--count", "1"}, cli.ExitOK},
		"where nobody can write": {[]string{"--count", "5", "-o", "jsonl"}, cli.ExitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := servertest.ForTest(t)
			dueMessages(t, env, "m-1")
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			read, write := io.Pipe()
			code := make(chan int, 1)
			go func() {
				args := append([]string{"consume", "--queue", "closing", "--amqp-url", env.AMQPURL, "--redis-url", env.RedisURL, "--prefix", env.Prefix}, c.args...)
				code <- run(ctx, args, cli.Streams{In: strings.NewReader(""), Out: write, Err: io.Discard}, func(string) (string, bool) { return "", false })
			}()
			if c.want == cli.ExitFailed {
				_ = read.CloseWithError(errors.New("the reader has left"))
			} else {
				for lines := bufio.NewScanner(read); lines.Scan() && !strings.HasPrefix(lines.Text(), "m-1 "); {
				}
				interrupt()
			}
			if got := <-code; got != c.want {
				t.Errorf("exit code %d, want %d", got, c.want)
			}
		})
	}
}
