package message_test

import (
	"strconv"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
)

func valid() message.Message { return message.Message{ID: "o-1", RoutingKey: "order.unpaid"} }

// nested returns a table inside so many others.
func nested(depth int) amqp.Table {
	table := amqp.Table{}
	for range depth {
		table = amqp.Table{"t": table}
	}
	return table
}

// nestedArray returns an array inside so many others, in a table.
func nestedArray(depth int) amqp.Table {
	array := []any{}
	for range depth - 1 {
		array = []any{array}
	}
	return amqp.Table{"a": array}
}

func wide(n int) amqp.Table {
	table := amqp.Table{}
	for i := range n {
		table[strconv.Itoa(i)] = nil
	}
	return table
}

func TestValidate(t *testing.T) {
	t.Parallel()
	long, longest := strings.Repeat("x", 256), strings.Repeat("x", 255)
	for name, c := range map[string]struct {
		change func(*message.Message)
		want   string // "" for valid
	}{
		"plain":                  {func(*message.Message) {}, ""},
		"everything at its most": {func(m *message.Message) { m.ID, m.RoutingKey, m.Type, m.UserID = longest, longest, longest, longest }, ""},
		"largest body":           {func(m *message.Message) { m.Body = make([]byte, wire.MaxBodyBytes) }, ""},
		"no ID":                  {func(m *message.Message) { m.ID = "" }, "ID is empty"},
		"long ID":                {func(m *message.Message) { m.ID = long }, "ID of 256 bytes is too long"},
		"no routing key":         {func(m *message.Message) { m.RoutingKey = "" }, "routing key is empty"},
		"no routing key, entry":  {func(m *message.Message) { m.RoutingKey, m.Entry = "", "orders" }, ""},
		"long entry":             {func(m *message.Message) { m.Entry = long }, "entry of 256 bytes"},
		"long routing key":       {func(m *message.Message) { m.RoutingKey = long }, "routing key of 256 bytes is too long"},
		"large body":             {func(m *message.Message) { m.Body = make([]byte, wire.MaxBodyBytes+1) }, "body of 16777217 bytes is too large"},
		"long content type":      {func(m *message.Message) { m.ContentType = long }, "content type of 256 bytes"},
		"long content encoding":  {func(m *message.Message) { m.ContentEncoding = long }, "content encoding of 256 bytes"},
		"long correlation ID":    {func(m *message.Message) { m.CorrelationID = long }, "correlation ID of 256 bytes"},
		"long reply-to":          {func(m *message.Message) { m.ReplyTo = long }, "reply-to of 256 bytes"},
		"long type":              {func(m *message.Message) { m.Type = long }, "type of 256 bytes"},
		"long app ID":            {func(m *message.Message) { m.AppID = long }, "app ID of 256 bytes"},
		"long user ID":           {func(m *message.Message) { m.UserID = long }, "user ID of 256 bytes"},
		"long expiration":        {func(m *message.Message) { m.Expiration = long }, "expiration of 256 bytes"},
		"reserved header":        {func(m *message.Message) { m.Headers = amqp.Table{wire.HeaderDue: "now"} }, `header "x-delaybridge-due"`},
		"long header name":       {func(m *message.Message) { m.Headers = amqp.Table{long: nil} }, "name of 256 bytes"},
		"struct as header":       {func(m *message.Message) { m.Headers = amqp.Table{"s": struct{}{}} }, `"s": AMQP has no type for a Go struct {}`},
		"uint64 in an array":     {func(m *message.Message) { m.Headers = amqp.Table{"a": []any{1, uint64(2)}} }, `"a": [1]: AMQP has no type for a Go uint64`},
		"plain map in a table":   {func(m *message.Message) { m.Headers = amqp.Table{"t": amqp.Table{"m": map[string]any{}}} }, `"t": "m": AMQP has no type for a Go map`},
		"deepest table":          {func(m *message.Message) { m.Headers = nested(wire.MaxHeaderDepth) }, ""},
		"too deep a table":       {func(m *message.Message) { m.Headers = nested(wire.MaxHeaderDepth + 1) }, "nested deeper than 32"},
		"deepest array":          {func(m *message.Message) { m.Headers = nestedArray(wire.MaxHeaderDepth) }, ""},
		"too deep an array":      {func(m *message.Message) { m.Headers = nestedArray(wire.MaxHeaderDepth + 1) }, "nested deeper than 32"},
		"largest headers": {func(m *message.Message) {
			m.Headers = amqp.Table{"a": strings.Repeat("x", wire.MaxHeaderBytes-11)}
		}, ""},
		"too large headers": {func(m *message.Message) {
			m.Headers = amqp.Table{"a": strings.Repeat("x", wire.MaxHeaderBytes-10)}
		}, "headers of 122881 bytes are too large"},
		"widest table":      {func(m *message.Message) { m.Headers = wide(wire.MaxHeaderElements) }, ""},
		"too wide a table":  {func(m *message.Message) { m.Headers = wide(wire.MaxHeaderElements + 1) }, "8193 entries in one table"},
		"too long an array": {func(m *message.Message) { m.Headers = amqp.Table{"a": make([]any, wire.MaxHeaderElements+1)} }, "8193 elements in one array"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := valid()
			c.change(&m)
			err := m.Validate()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestValidateReportsEveryFaultAtOnce(t *testing.T) {
	t.Parallel()
	m := message.Message{Type: strings.Repeat("x", 300), Headers: amqp.Table{"x-delaybridge-x": struct{}{}}}
	err := m.Validate()
	for _, want := range []string{"ID is empty", "routing key is empty", "type of 300 bytes", "belong to the bridge", "AMQP has no type"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
