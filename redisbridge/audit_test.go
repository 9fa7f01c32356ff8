package redisbridge_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// saidLog is a log that may be read while it is written.
type saidLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *saidLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *saidLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// audited returns what the log has.
func (b *bench) audited(t *testing.T, f redisbridge.AuditFilter) (all []redisbridge.AuditRecord) {
	t.Helper()
	for r, err := range b.park.AuditLog(t.Context(), f) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

func TestCommandsAreRecorded(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	log := &saidLog{}
	b.run(t, func(c *redisbridge.Config) { c.Logger = slog.New(slog.NewTextHandler(log, nil)) })
	b.parkIn(t, "g", "", "o-1", message.After(time.Hour))
	b.parkIn(t, "g", "", "o-2", message.After(time.Hour))
	ask := b.commander(t)
	before := time.Now().Add(-time.Minute)
	ask.ask("reschedule", `{"group": "g", "in": "2h", "reason": "the shop is closed"}`)
	ask.ask("get", `{"ids": ["o-1"]}`)
	ask.ask("cancel", `{"ids": ["o-1", "o-2", "o-1"]}`)
	if got := ask.ask("cancel", `{"ids": ["o-1"], "reason": "`+strings.Repeat("ä", 501)+`"}`); got != `{"error":"a reason of 501 characters: use 500 at most"}` {
		t.Errorf("a long reason: %s", got)
	}
	// Who it was the broker has checked, where the client says it.
	uri, err := amqp.ParseURI(b.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	b.publishTo(t, b.topology.Command(), amqp.Publishing{Type: "cancel", UserId: uri.Username, Body: []byte(`{"ids": ["o-2"]}`)})
	until(t, "three are recorded", func() bool { return len(b.audited(t, redisbridge.AuditFilter{})) == 3 })

	all := b.audited(t, redisbridge.AuditFilter{Since: before})
	for i, want := range []string{
		"by  (unknown) command reschedule [] of 0 group g, in 2h: the shop is closed, map[rescheduled:2]",
		"by  (unknown) command cancel [o-1 o-2 o-1] of 3 group , : , map[cancelled:2 cancelled before:1]",
		"by " + uri.Username + " (connection) command cancel [o-2] of 1 group , : , map[cancelled before:1]",
	} {
		r := all[i]
		got := fmt.Sprintf("by %s (%s) %s %s %v of %d group %s, %s: %s, %v", r.Who, r.KnownBy, r.Via, r.Action, r.IDs, r.Named, r.Group, r.Details, r.Reason, r.Outcome)
		if got != want || r.At.Before(before) {
			t.Errorf("record %d at %v:\n%s, want\n%s", i, r.At, got, want)
		}
	}
	for _, tc := range []struct {
		filter redisbridge.AuditFilter
		want   int
	}{
		{redisbridge.AuditFilter{Action: "cancel"}, 2},
		{redisbridge.AuditFilter{ID: "o-1"}, 1},
		{redisbridge.AuditFilter{Limit: 1}, 1},
		{redisbridge.AuditFilter{Since: time.Now().Add(time.Hour)}, 0},
	} {
		if got := b.audited(t, tc.filter); len(got) != tc.want {
			t.Errorf("%+v: %d records, want %d", tc.filter, len(got), tc.want)
		}
	}
	if last := b.audited(t, redisbridge.AuditFilter{Limit: 1}); last[0].Who != uri.Username {
		t.Errorf("the last record is %+v", last[0])
	}
	if text := log.String(); !strings.Contains(text, `level=INFO msg="command carried out" action=reschedule who="" known_by=unknown group=g details="in 2h" reason="the shop is closed" outcome="rescheduled 2"`) ||
		!strings.Contains(text, "action=cancel who="+uri.Username+" known_by=connection") {
		t.Errorf("the bridge logs\n%s", text)
	}
}

// The audit log is bounded, and so is a record. Who follows it misses nothing.
func TestAuditLogIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	followed := make(chan redisbridge.AuditRecord, 10)
	record := func(r redisbridge.AuditRecord) {
		t.Helper()
		if err := b.park.RecordAudit(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	record(redisbridge.AuditRecord{Action: "erase", Reason: "before"})
	go func() {
		defer close(followed)
		for r, err := range b.park.AuditLog(ctx, redisbridge.AuditFilter{Action: "erase", Follow: true, Limit: 1}) {
			if err != nil {
				t.Error(err)
			}
			followed <- r
		}
	}()
	if r := <-followed; r.Reason != "before" {
		t.Errorf("got %+v", r)
	}
	var ids []string
	for i := range 30 {
		ids = append(ids, fmt.Sprint("o-", i))
	}
	record(redisbridge.AuditRecord{Action: "cancel"})
	record(redisbridge.AuditRecord{Action: "erase", IDs: ids, Details: strings.Repeat("ä", 2000), Reason: strings.Repeat("ä", 500)})
	if r := <-followed; len(r.IDs) != 20 || r.Named != 30 || len([]rune(r.Details)) != 1001 || len([]rune(r.Reason)) != 500 {
		t.Errorf("got %+v", r)
	}
	stop()
	if _, more := <-followed; more {
		t.Error("it goes on after the end")
	}
	if err := b.park.RecordAudit(t.Context(), redisbridge.AuditRecord{Reason: strings.Repeat("ä", 501)}); !errors.Is(err, redisbridge.ErrInvalid) {
		t.Errorf("a long reason: %v", err)
	}
	const n, most = 10_400, 10_200
	if _, err := b.client.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
		for range n {
			pipe.XAdd(t.Context(), &redis.XAddArgs{Stream: "{" + b.Prefix + "}:audit", Values: []string{"record", "{}"}})
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	record(redisbridge.AuditRecord{Action: "cancel"})
	if got := len(b.audited(t, redisbridge.AuditFilter{})); got < 10_000 || got > most {
		t.Errorf("%d records are kept, of %d", got, n)
	}
}

// Without the permission for the audit log a command is carried out, and a warning says that it is not recorded.
func TestCommandWithoutAuditLog(t *testing.T) {
	t.Parallel()
	b := newBench(t, short())
	log := &saidLog{}
	b.run(t, func(c *redisbridge.Config) { c.Logger = slog.New(slog.NewTextHandler(log, nil)) })
	if err := b.client.Set(t.Context(), "{"+b.Prefix+"}:audit", "no stream", 0).Err(); err != nil {
		t.Fatal(err)
	}
	b.parkOne(t, "o-1", message.After(time.Hour))
	if got := said(b.commander(t).results("cancel", `{"ids": ["o-1"]}`)); got != "o-1 cancelled" {
		t.Errorf("got %s", got)
	}
	if text := log.String(); !strings.Contains(text, `msg="command carried out" action=cancel`) || !strings.Contains(text, "level=WARN msg=\"a command is not in the audit log") {
		t.Errorf("the bridge logs\n%s", text)
	}
}
