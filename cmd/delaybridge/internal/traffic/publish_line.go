package traffic

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer"
)

// publication is one message on its way to a server.
type publication struct {
	line    int // counted from 1; 0 for the command line's message
	bytes   int // of the line
	message message.Message
	when    message.When

	done      chan struct{} // closed when the fields below are final
	receipt   producer.Receipt
	cancelled bool // the ID was, before
	err       error
}

// publishLine is what a line of --file may say.
type publishLine struct {
	ID          string          `json:"id"`
	Key         string          `json:"key"`
	Entry       string          `json:"entry"`
	In          string          `json:"in"`
	At          string          `json:"at"`
	Body        json.RawMessage `json:"body"`
	BodyBase64  *string         `json:"body_base64"`
	Headers     map[string]any  `json:"headers"`
	ContentType string          `json:"content_type"`
}

// parse reads one line into p and checks it. The error names every fault that
// can be seen at once.
func (p *publication) parse(line []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	decoder.UseNumber()
	var l publishLine
	if err := decoder.Decode(&l); err != nil {
		return explainJSON(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("not one JSON object: there is something after it")
	}
	p.message = message.Message{ID: l.ID, Entry: l.Entry, RoutingKey: l.Key, ContentType: l.ContentType}
	var faults []error
	var err error
	if p.message.Headers, err = wire.TableOf(l.Headers); err != nil {
		faults = append(faults, fmt.Errorf("headers: %w", err))
	}
	if p.when, err = cli.ParseWhen(l.In, l.At, "in", "at"); err != nil {
		faults = append(faults, err)
	} else {
		faults = append(faults, p.when.Validate(time.Now()))
	}
	if err := p.takeBody(&l); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(append(faults, p.message.Validate())...)
}

func (p *publication) takeBody(l *publishLine) error {
	switch {
	case l.BodyBase64 != nil && l.Body != nil:
		return errors.New("body and body_base64 exclude each other")
	case l.BodyBase64 != nil:
		body, err := base64.StdEncoding.DecodeString(*l.BodyBase64)
		if err != nil {
			return fmt.Errorf("body_base64: %w", err)
		}
		p.message.Body = body
	case len(l.Body) > 0 && l.Body[0] == '"':
		var text string
		if err := json.Unmarshal(l.Body, &text); err != nil {
			return fmt.Errorf("body: %w", err)
		}
		p.message.Body = []byte(text)
	case l.Body != nil:
		p.message.Body = l.Body
		if p.message.ContentType == "" {
			p.message.ContentType = "application/json"
		}
	}
	return nil
}

// explainJSON puts the decoder's error into the user's words.
func explainJSON(err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("not JSON: the line ends in the middle of a value")
	case errors.As(err, &wrong) && wrong.Field == "":
		return fmt.Errorf("want a JSON object, found: %s", wrong.Value)
	case errors.As(err, &wrong):
		return fmt.Errorf("%s: want a JSON %s, found: %s", wrong.Field, jsonType(wrong.Type), wrong.Value)
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	if strings.HasPrefix(text, "unknown field") {
		return fmt.Errorf("%s: use id, key, entry, in, at, body, body_base64, headers, content_type", text)
	}
	return fmt.Errorf("not JSON: %s", text)
}

func jsonType(t reflect.Type) string {
	if t.Kind() == reflect.Map {
		return "object"
	}
	return t.Kind().String()
}
