package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
)

// Kinds of commands: the property type of the AMQP message.
const (
	Cancel     = "cancel"
	Reschedule = "reschedule"
	Get        = "get"
)

// mostIDs is how many messages one command may name, so that an answer stays small.
const mostIDs = 1000

// Request is a command that can be carried out.
type Request struct {
	Kind  string
	Entry string // whose messages are meant; "" is the default one
	IDs   []string
	Group string       // instead of IDs
	When  message.When // of Reschedule

	User   string // of the connection, if the client says it: the broker checks that
	Reason string // for the audit log

	in, at string
}

// WhenText is the new delay or instant as it was written.
func (r *Request) WhenText() string {
	if r.in != "" {
		return "in " + r.in
	}
	return "at " + r.at
}

// parse reads a command. The error names what is wrong, and what to write.
func parse(d *amqp.Delivery) (*Request, error) {
	switch d.Type {
	case Cancel, Reschedule, Get:
	case "":
		return nil, errors.New("the property type is missing: use cancel, reschedule or get")
	default:
		return nil, fmt.Errorf("type %q: use cancel, reschedule or get", d.Type)
	}
	var body struct {
		IDs    []string `json:"ids"`
		Group  string   `json:"group"`
		Entry  string   `json:"entry"`
		In     string   `json:"in"`
		At     string   `json:"at"`
		Reason string   `json:"reason"`
	}
	decoder := json.NewDecoder(bytes.NewReader(d.Body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&body); err != nil {
		return nil, unreadable(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the body has more than one JSON object")
	}
	r := &Request{Kind: d.Type, Entry: body.Entry, IDs: body.IDs, Group: body.Group, User: d.UserId, Reason: body.Reason, in: body.In, at: body.At}
	switch n := len(r.IDs); {
	case n == 0 && r.Group == "":
		return nil, errors.New(`the body names no message: write {"ids": ["order-1"]} or {"group": "order-77"}`)
	case n > 0 && r.Group != "":
		return nil, errors.New("the body has both ids and group: use one of them")
	case len(r.Group) > wire.MaxGroupBytes:
		return nil, fmt.Errorf("a group of %d bytes: use 1 to %d", len(r.Group), wire.MaxGroupBytes)
	case n > mostIDs:
		return nil, fmt.Errorf("%d IDs in one command: use %d at most", n, mostIDs)
	}
	for _, id := range r.IDs {
		if id == "" || len(id) > wire.MaxIDBytes {
			return nil, fmt.Errorf("an ID of %d bytes: use 1 to %d", len(id), wire.MaxIDBytes)
		}
	}
	if err := wire.CheckReason(r.Reason); err != nil {
		return nil, err
	}
	var err error
	r.When, err = when(r.Kind, body.In, body.At)
	return r, err
}

func unreadable(err error) error {
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("the body has the unknown field %s: use ids or group, entry, reason, and to reschedule in or at", field)
	}
	return fmt.Errorf(`the body is no JSON object as expected: write {"ids": ["order-1"]}: %w`, err)
}

func when(kind, in, at string) (w message.When, err error) {
	switch {
	case kind != Reschedule && (in != "" || at != ""):
		return w, fmt.Errorf("in and at are for reschedule, not for %s", kind)
	case kind != Reschedule:
		return w, nil
	case (in == "") == (at == ""):
		return w, errors.New(`to reschedule, write "in": "10m" or "at": "2030-01-01T08:00:00Z", one of them`)
	case in != "":
		delay, err := wire.ParseDuration(in)
		if err != nil {
			return w, fmt.Errorf("in: %w", err)
		}
		w = message.After(delay)
	default:
		instant, err := wire.ParseInstant(at)
		if err != nil {
			return w, fmt.Errorf("at: %w", err)
		}
		w = message.At(instant)
	}
	return w, w.Validate(time.Now())
}
