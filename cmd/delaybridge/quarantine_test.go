package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/topology"
)

// Killed in the middle of a replay: nobody reads what it prints, so it stands still
// with some messages sent on, some acknowledged, some on their way. Every message is in
// one place or the other, and another replay brings all to their queue.
func TestKilledReplayLosesNothing(t *testing.T) {
	t.Parallel()
	vars := scriptEnv(t)
	program := filepath.Join(program(t), "delaybridge")
	command := func(arguments ...string) *exec.Cmd {
		cmd := exec.Command(program, arguments...)
		cmd.Env = os.Environ()
		for name, value := range vars {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		return cmd
	}
	if err := command("topology", "apply").Run(); err != nil {
		t.Fatal(err)
	}
	top, err := topology.New(topology.Config{Prefix: vars["DELAYBRIDGE_PREFIX"]})
	if err != nil {
		t.Fatal(err)
	}
	const n = 3000
	fillQuarantine(t, vars["DELAYBRIDGE_AMQP_URL"], top, n)

	replay := command("quarantine", "replay", "--all", "-o", "jsonl")
	unread, write, err := os.Pipe() // holds about a thousand lines
	if err != nil {
		t.Fatal(err)
	}
	replay.Stdout = write
	if err := replay.Start(); err != nil {
		t.Fatal(err)
	}
	_ = write.Close()
	ch := channelOf(t, vars["DELAYBRIDGE_AMQP_URL"])
	const some = 500
	for deadline := time.After(time.Minute); held(t, ch, "closing") < some; {
		select {
		case <-deadline:
			t.Fatal("the replay does not get on")
		case <-time.After(20 * time.Millisecond):
		}
	}
	if err := replay.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = replay.Wait()
	_ = unread.Close()

	// What it had in hand returns to quarantine when the broker notices.
	for deadline := time.After(time.Minute); ; {
		here, there := held(t, ch, top.Quarantine()), held(t, ch, "closing")
		if here+there >= n {
			if here == 0 {
				t.Error("it was killed too late to show anything")
			}
			break
		}
		select {
		case <-deadline:
			t.Fatalf("%d messages in quarantine and %d in the queue, of %d", here, there, n)
		case <-time.After(20 * time.Millisecond):
		}
	}
	if out, err := command("quarantine", "replay", "--all").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if left := held(t, ch, top.Quarantine()); left != 0 {
		t.Errorf("%d messages are left in quarantine", left)
	}
	deliveries, err := ch.Consume("closing", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for deadline := time.After(time.Minute); len(seen) < n; {
		select {
		case d := <-deliveries:
			seen[d.MessageId] = true
		case <-deadline:
			t.Fatalf("%d of %d messages are in the queue", len(seen), n)
		}
	}
}

// fillQuarantine declares the queue "closing", and puts n messages into quarantine that
// come from there.
func fillQuarantine(t testing.TB, url string, top *topology.Topology, n int) {
	t.Helper()
	ch := channelOf(t, url)
	_, err := ch.QueueDeclare("closing", true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		t.Fatal(err)
	}
	const atOnce = 1000
	var confirms []*amqp.DeferredConfirmation
	for i := range n {
		m := message.Message{ID: fmt.Sprintf("m-%d", i), RoutingKey: "order.unpaid", Body: make([]byte, 200)}
		m.Journey.Failed("closing", time.Now(), errors.New("no such order"))
		p := m.Publishing(m.Journey)
		p.Headers[wire.HeaderError] = "no such order"
		confirmed, err := ch.PublishWithDeferredConfirm(top.Quarantine(), m.RoutingKey, false, false, p)
		if err != nil {
			t.Fatal(err)
		}
		if confirms = append(confirms, confirmed); len(confirms) == atOnce || i == n-1 {
			for _, c := range confirms {
				if !c.Wait() {
					t.Fatal("refused")
				}
			}
			confirms = nil
		}
	}
}

func channelOf(t testing.TB, url string) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

// held returns how many messages of a queue nobody has in hand.
func held(t testing.TB, ch *amqp.Channel, queue string) int {
	t.Helper()
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return q.Messages
}
