package main

import (
	"context"
	"os"
	"regexp"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/rogpeppe/go-internal/testscript"
)

// awaitComplete waits until nothing of the topology is missing.
func awaitComplete(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: complete")
	}
	for deadline := time.Now().Add(time.Minute); ; {
		if err := ts.Exec("delaybridge", "topology", "plan"); err == nil && ts.ReadFile("stdout") == "" {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("the topology is not complete")
		}
	}
}

// awaitSaid waits until a file that a process writes to has a match. A queue that is named
// it deletes every ten seconds: one that goes while a bridge compares it is put back without
// a word.
func awaitSaid(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 && len(args) != 3 {
		ts.Fatalf("usage: said FILE REGEXP [QUEUE]")
	}
	wanted, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	text := ""
	const pause, pauses = 50 * time.Millisecond, 1200
	for n := range pauses {
		if len(args) == 3 && n%200 == 0 {
			onBroker(ts, false, []string{"delete", args[2]})
		}
		time.Sleep(pause)
		read, err := os.ReadFile(ts.MkAbs(args[0]))
		if text = string(read); err == nil && wanted.MatchString(text) {
			return
		}
	}
	ts.Fatalf("no match for %q within a minute in:\n%s", args[1], text)
}

// onBroker does with AMQP what people do to a topology: declare or delete a
// queue, catch all that is due in one, also of another entry, publish a body to a queue,
// unbind a queue from the exchange of its name.
func onBroker(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: broker catch|declare|delete|publish|unbind QUEUE [ENTRY|BODY]")
	}
	conn, err := amqp.Dial(ts.Getenv("DELAYBRIDGE_AMQP_URL"))
	ts.Check(err)
	defer conn.Close()
	ch, err := conn.Channel()
	ts.Check(err)
	queue := args[1]
	switch args[0] {
	case "catch":
		_, err = ch.QueueDeclare(queue, true, false, false, false, nil)
		ts.Check(err)
		ready := strings.Join(append([]string{ts.Getenv("DELAYBRIDGE_PREFIX"), "ready"}, args[2:]...), ".")
		err = ch.QueueBind(queue, "#", ready, false, nil)
	case "declare":
		_, err = ch.QueueDeclare(queue, true, false, false, false, nil)
	case "delete":
		_, err = ch.QueueDelete(queue, false, false, false)
	case "publish":
		ts.Check(ch.Confirm(false))
		var c *amqp.DeferredConfirmation
		c, err = ch.PublishWithDeferredConfirmWithContext(context.Background(), "", queue, false, false, amqp.Publishing{Body: []byte(strings.Join(args[2:], ""))})
		ts.Check(err)
		c.Wait()
	case "unbind":
		err = ch.QueueUnbind(queue, "", queue, nil)
	default:
		ts.Fatalf("broker %s: unknown", strings.Join(args, " "))
	}
	ts.Check(err)
}
