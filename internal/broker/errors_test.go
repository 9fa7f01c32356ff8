package broker_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/broker"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	closed := func(code int, reason string) error { return &amqp.Error{Code: code, Reason: reason, Server: true} }
	for name, c := range map[string]struct {
		err       error
		want      error // nil: as it was
		permanent bool
		objected  bool
		unfit     bool
	}{
		"no exchange":           {closed(404, "NOT_FOUND - no exchange 'x' in vhost '/'"), broker.ErrMissing, true, false, false},
		"no queue":              {closed(404, "NOT_FOUND - no queue 'q' in vhost '/'"), broker.ErrMissing, true, false, false},
		"queue's node is down":  {closed(404, "NOT_FOUND - home node 'a@b' of durable queue 'q' is down or inaccessible"), nil, false, true, false},
		"no permission":         {closed(403, "ACCESS_REFUSED - write access to exchange 'x' refused for user 'u'"), broker.ErrForbidden, true, false, false},
		"exclusively consumed":  {closed(403, "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use"), nil, false, true, false},
		"message too large":     {closed(406, "PRECONDITION_FAILED - message size 20 is larger than max size 10"), nil, false, true, true},
		"frame too large":       {closed(501, "FRAME_ERROR - type 2, large payload of 200000 bytes"), nil, false, true, true},
		"broker has failed":     {closed(541, "INTERNAL_ERROR"), nil, false, true, false},
		"shutdown":              {closed(320, "CONNECTION_FORCED - broker forced connection closure"), nil, false, false, false},
		"closed by this client": {&amqp.Error{Code: 404, Reason: "NOT_FOUND - no exchange"}, nil, false, false, false},
		"network":               {io.ErrUnexpectedEOF, nil, false, false, false},
		"nothing":               {nil, nil, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := broker.Classify(c.err)
			if want := c.want; want == nil && !errors.Is(got, c.err) || want != nil && (!errors.Is(got, want) || !errors.Is(got, c.err)) {
				t.Errorf("got %v, want %v", got, want)
			}
			if broker.Permanent(got) != c.permanent {
				t.Errorf("Permanent: %v", !c.permanent)
			}
			if broker.Objected(got) != c.objected {
				t.Errorf("Objected: %v", !c.objected)
			}
			if broker.Unfit(got) != c.unfit {
				t.Errorf("Unfit: %v", !c.unfit)
			}
		})
	}
}

func TestMissingExchange(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{
		"NOT_FOUND - no exchange 'x.lane.1m.0' in vhost '/'": "x.lane.1m.0",
		"NOT_FOUND - no queue 'q' in vhost '/'":              "",
	} {
		err := broker.Classify(&amqp.Error{Code: 404, Reason: reason, Server: true})
		if got, ok := broker.MissingExchange(err); got != want || ok != (want != "") {
			t.Errorf("%s: got %q, %v; want %q", reason, got, ok, want)
		}
	}
}

func TestNewRejectsWrongURLs(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "localhost:5672", "http://guest:secret@localhost/", "amqp://guest:secret@local host/", "amqp://u:secret@h:port/", "amqp://u:secret@a,/", "amqp://u:secret@a,b c/", "amqp://u:sec,ret/x@a"} {
		_, err := broker.New(broker.Config{URL: url})
		if !errors.Is(err, broker.ErrConfiguration) || !strings.Contains(err.Error(), "amqp://user:password@host:5672/vhost") {
			t.Errorf("%q: got %v, want ErrConfiguration and an example", url, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %q has the password in it", url, err)
		}
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"amqp://u:secret@h:5672/v": "amqp://u:xxxxx@h:5672/v",
		"amqp://h:5672":            "amqp://h:5672",
		"amqp://u:sec ret@h":       "a URL that cannot be parsed",
		"amqp://u:12/secret@h/":    "amqp://xxxxx",
		"redis://secret@h/0":       "redis://xxxxx@h/0",
		"redis://h:1/0?master_name=m&password=secret&db=1&dial_timeout=1s": "redis://h:1/0?db=1&dial_timeout=1s&master_name=m&password=xxxxx",
		"redis://h:1?addr=h:2&addr=u:secret@h:3":                           "redis://h:1?addr=h%3A2&addr=xxxxx",
		"redis://h:1/0?master_name=m&password=sec@ret":                     "redis://h:1/0?master_name=m&password=xxxxx",
		"amqp://u:p@12/secret@h/v":                                         "amqp://xxxxx",
		"amqp://u:s,ecret@a:1,b:2,c/v":                                     "amqp://u:xxxxx@a:1,b:2,c/v",
		"amqp://u:secret@a:1,b:two/v":                                      "a URL that cannot be parsed",
		"amqp://u:12,3/secret@h/":                                          "amqp://xxxxx",
		"u:secret@h:5672":                                                  "a URL that cannot be parsed",
	} {
		if got := broker.Redact(url); got != want {
			t.Errorf("%s: got %s, want %s", url, got, want)
		}
	}
}
