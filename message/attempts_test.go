package message_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"pgregory.net/rapid"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/internal/wiretest"
	"github.com/delaybridge/delaybridge/message"
)

var errFire = errors.New("the shop is on fire\nsecond line")

// roundTrip has the bridge publish a retry, and returns what the consumer gets.
func roundTrip(t interface{ Fatal(...any) }, m *message.Message) message.Message {
	parked := m.Retry()
	queue, ok := parked.RetryQueue()
	if !ok {
		t.Fatal("no retry")
	}
	return message.FromBridge(delivery(parked.Publishing(message.Journey{Path: wire.RetryPath}), queue))
}

func TestRetryComesBackAsItWas(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := wiretest.Message().Draw(t, "message")
		if rapid.Bool().Draw(t, "has CC") {
			want.Headers = amqp.Table{"CC": []any{"one", "two"}, "n": int64(1)}
		}
		m := want
		m.Journey.Published = time.UnixMilli(1_700_000_000_001).UTC()
		for n := range rapid.IntRange(1, 30).Draw(t, "attempts") {
			m.Journey.Failed("billing", time.UnixMilli(int64(n)), errFire)
			m = roundTrip(t, &m)
			if m.Journey.Attempts != n+1 || m.Journey.Queue != "billing" {
				t.Fatalf("attempt %d: journey %+v", n+1, m.Journey)
			}
			if lines := m.Journey.History; len(lines) != min(n+1, 20) {
				t.Fatalf("attempt %d: %d lines of history", n+1, len(lines))
			}
		}
		if published := m.Journey.Published; published.UnixMilli() != 1_700_000_000_001 {
			t.Fatalf("published at %v, want when it was for the first time", published)
		}
		m.Journey = message.Journey{}
		if !wiretest.Same(m, want) {
			t.Fatalf("got  %#v\nwant %#v", m, want)
		}
	})
}

func TestRetryCannotBeRoutedElsewhere(t *testing.T) {
	t.Parallel()
	m := valid()
	m.Headers = amqp.Table{"CC": []any{"shipping"}}
	m.Journey.Failed("billing", instant(), errFire)
	retry := m.Retry()
	if _, there := retry.Publishing(message.Journey{}).Headers["CC"]; there {
		t.Error("the broker would route it by its CC, too")
	}
	if _, kept := m.Headers["CC"]; !kept {
		t.Error("the message itself was changed")
	}
}

func TestHistoryIsALinePerAttempt(t *testing.T) {
	t.Parallel()
	var j message.Journey
	at := time.Date(2030, 1, 2, 3, 4, 5, 6e6, time.UTC)
	j.Failed("billing", at, errFire)
	before := j.History
	j.Failed("billing", at.Add(time.Second), errors.New(strings.Repeat("ü", 999)))
	j.Replayed(at.Add(time.Minute))
	want := []string{
		"2030-01-02T03:04:05.006Z billing: the shop is on fire",
		"2030-01-02T03:04:06.006Z billing: " + strings.Repeat("ü", 300/2),
		"2030-01-02T03:05:05.006Z replayed from quarantine",
	}
	if !slices.Equal(j.History, want) || j.Attempts != 0 || j.Queue != "billing" {
		t.Errorf("journey %+v", j)
	}
	if len(before) != 1 {
		t.Error("who has the history of before sees it change")
	}
	j.Failed("billing", at, errFire)
	j.Failed("shipping", at, errFire)
	if j.Attempts != 1 || j.Queue != "shipping" {
		t.Errorf("journey %+v, want the first attempt of another queue", j)
	}
}

// The headers have to fit one frame, whatever the history is.
func TestHistoryLeavesRoom(t *testing.T) {
	t.Parallel()
	for _, own := range []int{0, 50 << 10, 118 << 10, 119 << 10, wire.MaxHeaderBytes} {
		m := valid()
		m.RoutingKey = strings.Repeat("k", 255)
		m.Headers = amqp.Table{"large": make([]byte, max(0, own-16))}
		for n := range 50 {
			m.Journey.Failed(strings.Repeat("q", 255), instant(), fmt.Errorf("%d %s", n, strings.Repeat("e", 999)))
		}
		const ours = 1 << 10 // queue, routing key, attempts and their names
		retry := m.Retry()
		if n := wire.TableBytes(retry.Headers); n > max(wire.MaxHeaderBytes, own+ours) {
			t.Errorf("own headers of %d bytes became %d", own, n)
		}
		back := roundTrip(t, &m)
		if back.Journey.Attempts != 50 || back.RoutingKey != m.RoutingKey {
			t.Errorf("own headers of %d bytes: %d attempts, routing key %q", own, back.Journey.Attempts, back.RoutingKey)
		}
		if lines := back.Journey.History; len(lines) > 0 && lines[len(lines)-1] != m.Journey.History[20-1] {
			t.Errorf("own headers of %d bytes: the latest line is %.80q", own, lines[len(lines)-1])
		} else if own == 0 && len(lines) != 20 {
			t.Errorf("%d lines, want %d", len(lines), 20)
		}
	}
}

func TestForeignJourney(t *testing.T) {
	t.Parallel()
	for name, headers := range map[string]amqp.Table{
		"other types": {
			wire.HeaderQueue: int64(1), wire.HeaderAttempts: "many", wire.HeaderHistory: []any{int64(1)},
			wire.HeaderKey: true, wire.HeaderCC: "shipping",
		},
		"too long":            {wire.HeaderQueue: strings.Repeat("q", 256), wire.HeaderAttempts: int64(-1), wire.HeaderHistory: "text"},
		"not the routing key": {wire.HeaderKey: "another", wire.HeaderCC: []any{"shipping"}},
	} {
		got := message.FromBridge(&amqp.Delivery{MessageId: "o-1", RoutingKey: "k", Headers: headers})
		if want := (message.Message{ID: "o-1", RoutingKey: "k"}); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %#v", name, got)
		}
	}
	// A CC header that is no array has the broker close the channel.
	got := message.FromBridge(&amqp.Delivery{RoutingKey: "billing", Headers: amqp.Table{
		wire.HeaderQueue: "billing", wire.HeaderKey: "k", wire.HeaderCC: "shipping",
	}})
	if got.RoutingKey != "k" || got.Headers != nil {
		t.Errorf("got %#v", got)
	}
}

func TestPublishingTellsOfAttempts(t *testing.T) {
	t.Parallel()
	m := valid()
	m.Journey.Failed("billing", instant(), errFire)
	headers := m.Publishing(m.Journey).Headers
	if headers[wire.HeaderQueue] != "billing" || headers[wire.HeaderAttempts] != int64(1) || len(headers[wire.HeaderHistory].([]any)) != 1 {
		t.Errorf("headers %v", headers)
	}
	if got := message.FromBridge(delivery(m.Publishing(m.Journey), m.RoutingKey)); !reflect.DeepEqual(got.Journey.History, m.Journey.History) || got.RoutingKey != m.RoutingKey {
		t.Errorf("got %#v", got)
	}
	if _, told := m.Publishing(message.Journey{}).Headers[wire.HeaderQueue]; told {
		t.Error("a message that is published again tells of its past")
	}
}
