package redisbridge_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// commander is a client that sends commands over its own connection, and reads the answers.
type commander struct {
	t       *testing.T
	b       *bench
	ch      *amqp.Channel
	answers <-chan amqp.Delivery
	n       int
}

func (b *bench) commander(t *testing.T) *commander {
	t.Helper()
	ch := b.channel(t)
	answers, err := ch.Consume("amq.rabbitmq.reply-to", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &commander{t: t, b: b, ch: ch, answers: answers}
}

// ask returns what a command is answered with.
func (c *commander) ask(kind, body string) string {
	c.t.Helper()
	c.n++
	asked := strconv.Itoa(c.n)
	err := c.ch.Publish(c.b.topology.Command(), "", true, false, amqp.Publishing{
		Type: kind, ReplyTo: "amq.rabbitmq.reply-to", CorrelationId: asked, Body: []byte(body),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	select {
	case d := <-c.answers:
		if d.CorrelationId != asked || d.Type != kind || d.ContentType != "application/json" {
			c.t.Errorf("the answer to %s %s has correlation ID %q, type %q, content type %q", asked, kind, d.CorrelationId, d.Type, d.ContentType)
		}
		return string(d.Body)
	case <-time.After(patience):
		c.t.Fatalf("no answer to %s %s", kind, body)
		return ""
	}
}

// results is what an answer says of each message.
func (c *commander) results(kind, body string) []described {
	c.t.Helper()
	var answer struct {
		Results []described
		Error   string
	}
	text := c.ask(kind, body)
	if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Error != "" {
		c.t.Fatalf("%s %s: %s (%v)", kind, body, text, err)
	}
	return answer.Results
}

// described is what an answer says of a message.
type described struct {
	ID, State, Outcome string
	Due                time.Time
	Key                string
	BodyBytes          int `json:"body_bytes"`
}

// said puts together what an answer says.
func said(list []described) string {
	var all []string
	for _, d := range list {
		all = append(all, fmt.Sprintf("%s %s", d.ID, d.State+d.Outcome))
	}
	return strings.Join(all, ", ")
}

func TestCommandsAreCarriedOutAndAnswered(t *testing.T) {
	t.Parallel()
	c := short()
	c.Entries = []topology.Entry{{Name: "orders", Kind: amqp.ExchangeTopic}}
	b := newBench(t, c)
	b.run(t, nil)
	for _, id := range []string{"o-1", "o-2", "o-3"} {
		b.parkOne(t, id, message.After(time.Hour))
	}
	b.parkThis(t, &message.Message{ID: "o-1", Entry: "orders", RoutingKey: "k"}, message.After(time.Hour))
	ask := b.commander(t)
	for _, tc := range []struct{ kind, body, want string }{
		{"get", `{"ids": ["o-1", "never"]}`, "o-1 parked, never unknown"},
		{"cancel", `{"ids": ["o-1", "o-2", "never"]}`, "o-1 cancelled, o-2 cancelled, never recorded"},
		{"cancel", `{"ids": ["o-1"]}`, "o-1 cancelled before"},
		{"cancel", `{"ids": ["o-1"], "entry": "orders"}`, "o-1 cancelled"},
		{"reschedule", `{"ids": ["o-3", "o-2"], "in": "2h"}`, "o-3 rescheduled, o-2 cancelled before"},
		{"reschedule", `{"ids": ["o-3"], "at": "2030-01-01T08:00:00+01:00"}`, "o-3 rescheduled"},
	} {
		if got := said(ask.results(tc.kind, tc.body)); got != tc.want {
			t.Errorf("%s %s: %s, want %s", tc.kind, tc.body, got, tc.want)
		}
	}
	if d := ask.results("get", `{"ids": ["o-3"]}`)[0]; !d.Due.Equal(time.Date(2030, 1, 1, 7, 0, 0, 0, time.UTC)) || d.Key != "order.unpaid" || d.BodyBytes != len("o-3") {
		t.Errorf("got %+v", d)
	}
	ask.results("reschedule", `{"ids": ["o-3"], "in": "100ms"}`)
	b.arrivals.awaitID(t, "o-3")
}

func TestCommandsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.run(t, nil)
	ask := b.commander(t)
	for _, tc := range []struct{ kind, body, want string }{
		{"", `{"ids": ["o-1"]}`, "type is missing"},
		{"delete", `{"ids": ["o-1"]}`, `type "delete": use cancel`},
		{"cancel", `o-1`, "no JSON object"},
		{"cancel", `{"ids": "o-1"}`, "no JSON object"},
		{"cancel", `{"ids": ["o-1"]} {}`, "more than one"},
		{"cancel", `{"id": "o-1"}`, `unknown field "id"`},
		{"cancel", `{}`, "names no message"},
		{"cancel", `{"ids": [""]}`, "an ID of 0 bytes"},
		{"cancel", `{"ids": ["o-1"], "in": "10m"}`, "for reschedule, not for cancel"},
		{"cancel", `{"ids": ["o-1"], "entry": "nowhere"}`, `entry "nowhere" is not configured`},
		{"cancel", `{"ids": [` + strings.Repeat(`"o-1", `, 1000) + `"o-1"]}`, "1001 IDs"},
		{"reschedule", `{"ids": ["o-1"]}`, `write "in"`},
		{"reschedule", `{"ids": ["o-1"], "in": "10m", "at": "2030-01-01T08:00:00Z"}`, "one of them"},
		{"reschedule", `{"ids": ["o-1"], "in": "soon"}`, `in: "soon" is not a duration`},
		{"reschedule", `{"ids": ["o-1"], "at": "noon"}`, `at: "noon" is not an instant`},
		{"reschedule", `{"ids": ["o-1"], "in": "20000d"}`, "delay"},
	} {
		var answer struct{ Error string }
		if text := ask.ask(tc.kind, tc.body); json.Unmarshal([]byte(text), &answer) != nil || !strings.Contains(answer.Error, tc.want) {
			t.Errorf("%s %.80s: answered %s, want an error with %s", tc.kind, tc.body, text, tc.want)
		}
	}
	// Where there is nobody to answer, and where the answer would be taken for a message.
	for id, replyTo := range map[string]string{"nobody": "", "nowhere": "no-such-queue", "the inbox": b.topology.Inbox()} {
		b.publishTo(t, b.topology.Command(), amqp.Publishing{MessageId: id, Type: "cancel", ReplyTo: replyTo, Body: []byte("o-1")})
		d := b.getFrom(t, b.topology.Quarantine())
		if why, _ := d.Headers["x-delaybridge-error"].(string); d.MessageId != id || d.Type != "cancel" || string(d.Body) != "o-1" || !strings.Contains(why, "no JSON object") ||
			d.Headers["x-delaybridge-queue"] != b.topology.Command() {
			t.Errorf("%s: in quarantine: %+v", id, d)
		}
	}
}

// getFrom gets one message from a queue, and leaves the others there.
func (b *bench) getFrom(t *testing.T, queue string) (d amqp.Delivery) {
	t.Helper()
	ch := b.channel(t)
	until(t, "there is a message in "+queue, func() bool {
		var there bool
		var err error
		if d, there, err = ch.Get(queue, true); err != nil {
			t.Fatal(err)
		}
		return there
	})
	return d
}

// Who may only publish may neither cancel nor look up what is others'.
func TestWhoMayOnlyPublishCannotCommand(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	b.run(t, nil)
	ch, err := dialAs(t, b.userWhoMayWrite(t, "^"+b.topology.EntryExchange()+"$")).Channel()
	if err != nil {
		t.Fatal(err)
	}
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	if err := ch.Publish(b.topology.Command(), "", false, false, amqp.Publishing{Type: "cancel", Body: []byte(`{"ids": ["o-1"]}`)}); err != nil {
		t.Fatal(err)
	}
	if err := <-closed; err == nil || err.Code != amqp.AccessRefused {
		t.Errorf("got %v, want ACCESS_REFUSED", err)
	}
}

// A command that the broker has confirmed is carried out, whatever dies.
func TestCommandsSurviveWhatDies(t *testing.T) {
	t.Parallel()
	rabbit, store := servertest.RabbitMQForTest(t), servertest.RedisForTest(t)
	b := newBenchAt(t, short(), servertest.Env{AMQPURL: rabbit.AMQPURL(), RedisURL: store.URL(), Prefix: "commands"})
	if err := rabbit.Restart(t.Context()); err != nil { // see TestServersThatRestartLoseNothing
		t.Fatal(err)
	}
	const n = 300
	for i := range n {
		b.parkOne(t, fmt.Sprint("o-", i), message.After(time.Hour))
	}
	send := func(from, to int) {
		var all []amqp.Publishing
		for i := from; i < to; i++ {
			all = append(all, amqp.Publishing{Type: "cancel", Body: fmt.Appendf(nil, `{"ids": ["o-%d"]}`, i)})
		}
		b.publishTo(t, b.topology.Command(), all...)
	}
	stop := b.run(t, nil)
	send(0, 100)
	stop()
	send(100, 200)
	b.run(t, nil)
	if err := errors.Join(store.Kill(t.Context()), store.Restart(t.Context())); err != nil {
		t.Fatal(err)
	}
	send(200, n)
	if err := errors.Join(rabbit.Kill(t.Context()), rabbit.Restart(t.Context())); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		b.lookUntil(t, fmt.Sprint("o-", i), redisbridge.StateCancelled)
	}
}
