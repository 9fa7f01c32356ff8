package shop

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
)

// The same seed makes the same orders.
func TestSeedDecidesOrders(t *testing.T) {
	t.Parallel()
	differ := false
	for n := range 100 {
		a, b := PlanOrder(7, n), PlanOrder(7, n)
		if a != b {
			t.Fatalf("order %d: %+v and %+v", n, a, b)
		}
		differ = differ || a != PlanOrder(8, n)
	}
	if !differ {
		t.Error("another seed makes the same orders")
	}
}

// Customers change their minds before, around and after the due time, to earlier and
// to later, and handlers fail in each way.
func TestPlansHaveEverything(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for n := range 5000 {
		o := PlanOrder(1, n)
		due := o.Delay
		for i, c := range o.Changes {
			if c.Does == "" {
				break
			}
			when := "after"
			switch d := c.In - due; {
			case d.Abs() <= 50*time.Millisecond:
				when = "around"
			case d < 0:
				when = "before"
			}
			seen[string(c.Does)+", "+when]++
			if c.To < 0 || c.To > LongestOrder || c.In < 0 || c.In > LongestOrder+LongestOrder+time.Second {
				t.Errorf("order %d: change %d: %+v", n, i, c)
			}
			if c.Does != Reschedules {
				continue
			}
			if c.In+c.To < due {
				seen["earlier"]++
			} else {
				seen["later"]++
			}
			due = c.In + c.To
		}
		for attempt := range o.Fails {
			how, _ := PlanFailure(1, n, attempt)
			seen[[]string{"fails", "fails for now", "panics"}[how]]++
		}
		if o.Rejected {
			seen["rejects"]++
		}
		if o.Wait > time.Minute {
			seen["waits for minutes"]++
		}
		if o.Shares {
			seen["shares an ID"]++
		}
		if o.Way == WayOutbox {
			seen["through the outbox"]++
		}
		if o.Entry != "" {
			seen["tracked entry"]++
		}
		if o.Also() != "" {
			seen["goes to two queues"]++
		}
		if o.Changes[0].Does == "" {
			seen["leaves it"]++
		}
	}
	for _, what := range []string{
		"cancel, before", "cancel, around", "cancel, after", "reschedule, before", "reschedule, around", "reschedule, after",
		"earlier", "later", "fails", "fails for now", "panics", "rejects", "leaves it", "waits for minutes", "goes to two queues", "shares an ID", "tracked entry", "through the outbox",
	} {
		if seen[what] < 50 {
			t.Errorf("of 5000 orders %d: %s", seen[what], what)
		}
	}
}

func TestIntactSeesEveryChange(t *testing.T) {
	t.Parallel()
	for n := range 50 {
		o := PlanOrder(1, n)
		fresh := func() message.Message {
			m := o.Message()
			m.Headers[wire.HeaderDelay] = int64(5) // of the entry exchange
			m.Journey.Path = message.PathDirect
			m.Timestamp = m.Timestamp.UTC()
			return m
		}
		if !o.Intact(fresh()) {
			t.Fatalf("order %d: the message itself is not intact", n)
		}
		for name, damage := range map[string]func(*message.Message){
			"body":          func(m *message.Message) { m.Body = m.Body[1:] },
			"routing key":   func(m *message.Message) { m.RoutingKey += "x" },
			"expiration":    func(m *message.Message) { m.Expiration += "1" },
			"priority":      func(m *message.Message) { m.Priority++ },
			"timestamp":     func(m *message.Message) { m.Timestamp = m.Timestamp.Add(time.Second) },
			"header gone":   func(m *message.Message) { delete(m.Headers, "none") },
			"header more":   func(m *message.Message) { m.Headers["x-acquired-count"] = int64(2) },
			"header's type": func(m *message.Message) { m.Headers["number"] = int32(n) },
			"header's time": func(m *message.Message) { m.Headers["at"] = time.Unix(1, 0) },
			"nested header": func(m *message.Message) { m.Headers["lines"] = []any{amqp.Table{}} },
		} {
			m := fresh()
			damage(&m)
			if o.Intact(m) {
				t.Errorf("order %d: damage to the %s goes unnoticed", n, name)
			}
		}
	}
}
