//go:build frameworks

package frameworks_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

// wire is AMQP's letter for what came.
func wire(value any) string {
	switch value.(type) {
	case int8:
		return "b"
	case uint8:
		return "B"
	case int16:
		return "s"
	case uint16:
		return "u"
	case int32:
		return "I"
	case uint32:
		return "i"
	case int64:
		return "l"
	case float32:
		return "f"
	case float64:
		return "d"
	case string:
		return "S"
	case []byte:
		return "x"
	case amqp.Decimal:
		return "D"
	}
	return fmt.Sprintf("%T", value)
}

// What each client makes of a number is in a table of the page, with the way that the message takes.
func testTypesOfNumbers(t *testing.T, w *world, node, java string) {
	t.Helper()
	t.Parallel()
	page, err := os.ReadFile("../../docs/frameworks.md")
	if err != nil {
		t.Fatal(err)
	}
	for client, p := range map[string]program{
		"pika":        {dir: "types", args: []string{debianPython, "send_pika.py"}},
		"kombu":       {dir: "types", args: []string{debianPython, "send_kombu.py"}},
		"amqplib":     {dir: node, args: []string{"node", "types/amqplib.mjs"}},
		"php-amqplib": {dir: "types", args: []string{"php", "php-amqplib.php"}},
		"php-amqp":    {dir: "types", args: []string{"php", "php-amqp.php"}},
		"bunny":       {dir: "types", args: []string{"ruby", "bunny.rb"}},
		"java":        {dir: java, args: []string{"java", "-cp", ".:" + javaPath, "Java"}},
		"amqp-tools":  {dir: "types", args: []string{"sh", "amqp-tools.sh"}},
		"perl":        {dir: "types", args: []string{"perl", "perl.pl"}},
	} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			refused := w.run(t, p) // by the client itself, which says so
			row := []string{"| `" + client + "`"}
			for _, kind := range []string{"integer", "float", "text", "month"} {
				if strings.Contains(refused, kind) {
					row = append(row, "refused")
					continue
				}
				in := w.await(t, w.published, client+"-"+kind)
				way := "inbox"
				if in.tier {
					way = "tier"
				}
				row = append(row, wire(in.Headers["x-delay"])+", "+way)
				if kind != "month" {
					w.await(t, w.delivered, client+"-"+kind)
				}
			}
			if line := strings.Join(row, " | ") + " |\n"; !strings.Contains(string(page), "\n"+line) {
				t.Errorf("docs/frameworks.md has not the row\n%s", line)
			}
		})
	}
}

// What AMQP 1.0 finds changed is in a table of another page. AMQP 0-9-1 finds bodies encoded that are not data.
func testAMQP10(t *testing.T, w *world) {
	t.Helper()
	t.Parallel()
	page, err := os.ReadFile("../../docs/protocols.md")
	if err != nil {
		t.Fatal(err)
	}
	for row := range strings.Lines(w.run(t, program{dir: "types", args: []string{debianPython, "send_amqp10.py"}})) {
		if !strings.Contains(string(page), "\n"+row) {
			t.Errorf("docs/protocols.md has not the row\n%s", row)
		}
	}
	for body, encoded := range map[string]bool{"bytes (data)": false, "text (value)": true, "map (value)": true, "list (sequence)": true} {
		for _, way := range []string{"tier", "inbox"} {
			if got := w.await(t, w.delivered, body+" "+way).Type == "amqp-1.0"; got != encoded {
				t.Errorf("%s by %s: as AMQP 0-9-1 it is encoded: %v", body, way, got)
			}
		}
	}
}

// STOMP and MQTT arrive as docs/protocols.md says.
func TestSTOMPAndMQTT(t *testing.T) {
	t.Parallel()
	install(t)
	broker := servertest.RabbitMQForTest(t)
	stomp, mqtt, err := broker.EnableProtocols(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, servertest.Env{AMQPURL: broker.AMQPURL(), ManagementURL: broker.ManagementURL(), VHost: "%2F"})
	ports := []string{fmt.Sprintf("STOMP_PORT=%d", stomp), fmt.Sprintf("MQTT_PORT=%d", mqtt)}
	headers := func(s sighting, want amqp.Table) {
		t.Helper()
		for name, value := range want {
			if s.Headers[name] != value {
				t.Errorf("header %s is %#v, want %#v", name, s.Headers[name], value)
			}
		}
	}

	said := w.run(t, program{dir: "types", args: []string{debianPython, "send_stomp.py"}, env: ports})
	if !strings.Contains(said, "'message-id' is not allowed on 'SEND'") {
		t.Errorf("a message-id: %q", said)
	}
	for _, id := range []string{"stomp-1000", "stomp-1500"} {
		if w.await(t, w.published, id).tier {
			t.Errorf("%s is in the tier", id)
		}
		s := w.await(t, w.delivered, id)
		headers(s, amqp.Table{"x-delay": strings.TrimPrefix(id, "stomp-"), "colour": "red", "x-delaybridge-priority": uint8(7)})
		if s.MessageId != id || string(s.Body) != "body" || s.ContentType != "text/plain" || s.CorrelationId != "corr" || s.RoutingKey != "types.stomp" {
			t.Errorf("%s: %+v", id, s)
		}
	}

	said = w.run(t, program{dir: "types", args: []string{debianPython, "send_mqtt.py"}, env: ports})
	if !strings.Contains(said, "at once: delayed/order mqtt-1000") {
		t.Errorf("a subscriber of the topic: %q", said)
	}
	s := w.await(t, w.delivered, "mqtt-1000")
	headers(s, amqp.Table{"x-delay": "1000", "colour": "red", "x-reply-to-topic": "answers.x"})
	if !strings.HasPrefix(s.MessageId, "no-id.") || s.ContentType != "text/plain" || s.CorrelationId != "corr" || s.RoutingKey != "delayed.order" {
		t.Errorf("%+v", s)
	}
}
