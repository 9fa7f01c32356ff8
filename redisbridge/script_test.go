package redisbridge_test

import (
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// documentedScript is the one that docs/wire-contract.md has for other languages.
func documentedScript(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/wire-contract.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "```lua\n")
	script, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatal("docs/wire-contract.md has no script")
	}
	return script
}

// ask runs the script as a client in another language does, by the document alone.
func (b *bench) ask(t *testing.T, script string, m message.Message) int64 {
	t.Helper()
	sum := sha1.Sum([]byte(m.ID))
	tag := fmt.Sprintf("{%s:%d}:", b.topology.Prefix(), binary.BigEndian.Uint32(sum[4:8])%uint32(b.topology.Shards()))
	published := int64(0)
	if !m.Journey.Published.IsZero() {
		published = m.Journey.Published.UnixMilli()
	}
	answer, err := b.client.Eval(t.Context(), script,
		[]string{tag + "env", tag + "kept", tag + "claimed"}, m.ID, published, m.Journey.Version, string(m.Journey.Path)).Int64()
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestScriptForOtherLanguages(t *testing.T) {
	t.Parallel()
	const handle, drop = 0, -1
	script := documentedScript(t)
	b := newBenchAt(t, short(), servertest.ForTest(t))
	b.run(t, nil)
	ch := b.confirming(t)
	deliveries := b.deliveries(t)
	next := func(id string) message.Message {
		t.Helper()
		select {
		case d := <-deliveries:
			m := b.topology.Message(&d)
			if m.ID != id {
				t.Fatalf("%s came, want %s", m.ID, id)
			}
			return m
		case <-time.After(patience):
			t.Fatalf("%s: not within %v", id, patience)
			return message.Message{}
		}
	}
	want := func(m message.Message, want int64) {
		t.Helper()
		if got := b.ask(t, script, m); got != want {
			t.Errorf("%s, version %d: answer %d, want %d", m.ID, m.Journey.Version, got, want)
		}
	}
	told := func(want redisbridge.Outcome) func(redisbridge.Change, error) redisbridge.Change {
		return func(change redisbridge.Change, err error) redisbridge.Change {
			t.Helper()
			if err != nil || change.Outcome != want {
				t.Errorf("got %+v, %v; want %s", change, err, want)
			}
			return change
		}
	}

	b.parkOne(t, "wanted", message.After(600*time.Millisecond))
	m := next("wanted")
	want(m, handle)
	want(m, handle) // delivered again
	told(redisbridge.OutcomeDelivered)(b.park.Cancel(t.Context(), "wanted"))

	b.parkOne(t, "cancelled", message.After(600*time.Millisecond))
	m = next("cancelled") // nobody has told Redis
	told(redisbridge.OutcomeRecorded)(b.park.Cancel(t.Context(), "cancelled"))
	want(m, drop)

	inLane := ""
	for n := range 20 {
		id := fmt.Sprint("rescheduled-", n)
		b.parkOne(t, id, message.After(1800*time.Millisecond))
		until(t, "it is promoted", func() bool { held, err := b.held(t, id); return err == nil && !held })
		change, err := b.park.Reschedule(t.Context(), id, message.After(3*time.Second))
		if err == nil && change.Outcome == redisbridge.OutcomeDone {
			inLane = id
			break
		}
		told(redisbridge.OutcomeRecorded)(change, err) // on a slow machine it was due by then
		want(next(id), change.Due.UnixMilli())
	}
	want(next(inLane), drop)
	want(next(inLane), handle)

	b.enter(t, ch, "in a tier", time.Second)
	due := told(redisbridge.OutcomeRecorded)(b.park.Reschedule(t.Context(), "in a tier", message.After(3*time.Second))).Due
	want(next("in a tier"), due.UnixMilli())

	b.enter(t, ch, "cancelled in a tier", time.Second)
	told(redisbridge.OutcomeRecorded)(b.park.Cancel(t.Context(), "cancelled in a tier"))
	want(next("cancelled in a tier"), drop)

	b.enter(t, ch, "in a tier, wanted", time.Second)
	want(next("in a tier, wanted"), handle)
	told(redisbridge.OutcomeDelivered)(b.park.Cancel(t.Context(), "in a tier, wanted"))

	b.parkOne(t, "of the same millisecond", message.After(time.Hour))
	parked, _, err := lookUp(b.park.Get(t.Context(), "of the same millisecond"))
	if err != nil {
		t.Fatal(err)
	}
	want(message.Message{ID: parked.ID, Journey: message.Journey{Published: parked.Published, Path: message.PathDirect}}, handle)
	told(redisbridge.OutcomeDone)(b.park.Cancel(t.Context(), parked.ID)) // as it is another message
}
