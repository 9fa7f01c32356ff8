// Package outboxtest says what every [outbox.Store] does.
package outboxtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer"
	"github.com/delaybridge/delaybridge/producer/outbox"
)

// Tx is a transaction of the user's.
type Tx interface {
	Publish(ctx context.Context, m message.Message, w message.When) error
	Cancel(ctx context.Context, id string) error
	Reschedule(ctx context.Context, id string, w message.When) error
	// Exec runs a statement that has no parameters.
	Exec(ctx context.Context, statement string) error
	End(commit bool) error
}

// Subject is an outbox in a database of its own, whose table was made.
type Subject struct {
	Store outbox.Store
	Begin func(ctx context.Context) (Tx, error)
	// Free is after how long rows are free again whose process died.
	Free time.Duration
}

// Run runs all tests, each on a subject of its own.
func Run(t *testing.T, fresh func(t testing.TB) Subject) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Subject){
		"committed rows alone are sent":           committedAlone,
		"a message comes out as it went in":       fidelity,
		"SQL needs few columns":                   plainSQL,
		"a delay runs from the insertion":         delayRuns,
		"what is invalid is refused":              refused,
		"rows of an ID are sent in order":         inOrder,
		"a row is sent by one relay at a time":    shared,
		"a row that fails holds up no others":     setAside,
		"a row is tried again after its pause":    triedAgain,
		"a row that was held is free at once":     held,
		"rows are sent again that were not noted": notNoted,
		"a listener is woken":                     woken,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, fresh(t))
		})
	}
}

// Within runs do in a transaction of its own.
func (s Subject) Within(t testing.TB, commit bool, do func(ctx context.Context, tx Tx) error) {
	t.Helper()
	tx, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(do(t.Context(), tx), tx.End(commit)); err != nil {
		t.Fatal(err)
	}
}

func order(id string) message.Message {
	return message.Message{ID: id, RoutingKey: "order.unpaid", Body: []byte("close")}
}

func (s Subject) publish(t testing.TB, ids ...string) {
	t.Helper()
	s.Within(t, true, func(ctx context.Context, tx Tx) error {
		for _, id := range ids {
			if err := tx.Publish(ctx, order(id), message.After(time.Minute)); err != nil {
				return err
			}
		}
		return nil
	})
}

func done(_ context.Context, rows []outbox.Row) []outbox.Sent {
	return as(rows, outbox.Sent{Done: true})
}

func as(rows []outbox.Row, s outbox.Sent) []outbox.Sent {
	all := make([]outbox.Sent, len(rows))
	for i, r := range rows {
		s.Seq = r.Seq
		all[i] = s
	}
	return all
}

// take returns what one call takes.
func (s Subject) take(t testing.TB, limit int, send func(context.Context, []outbox.Row) []outbox.Sent) (taken []outbox.Row) {
	t.Helper()
	n, err := s.Store.Take(t.Context(), limit, func(ctx context.Context, rows []outbox.Row) []outbox.Sent {
		taken = slices.Clone(rows)
		return send(ctx, rows)
	})
	if err != nil || n != len(taken) {
		t.Fatalf("took %d rows, %v; and was handed %d", n, err, len(taken))
	}
	return taken
}

func ids(rows []outbox.Row) (all []string) {
	for _, r := range rows {
		all = append(all, string(r.Action)+" "+r.MessageID)
	}
	slices.Sort(all)
	return all
}

func (s Subject) wantTaken(t testing.TB, want ...string) {
	t.Helper()
	if got := ids(s.take(t, 100, done)); !slices.Equal(got, want) {
		t.Errorf("took %q, want %q", got, want)
	}
}

func committedAlone(t *testing.T, s Subject) {
	t.Helper()
	s.publish(t, "committed")
	s.Within(t, false, func(ctx context.Context, tx Tx) error { return tx.Publish(ctx, order("rolled back"), message.After(0)) })
	s.wantTaken(t, "publish committed")
	s.wantTaken(t)
}

func fidelity(t *testing.T, s Subject) {
	t.Helper()
	sent := message.Message{
		ID: "a-ü", Entry: "shop", RoutingKey: "order.unpaid", Body: []byte{0, 1, 0xff, '\''},
		Headers: amqp.Table{
			"text": "it's \"q\"", "whole": int64(1 << 60), "float": 2.0, "yes": true, "none": nil,
			"table": amqp.Table{"a": []any{int64(1), "b"}},
		},
		ContentType: "text/plain", ContentEncoding: "gzip", CorrelationID: "c", ReplyTo: "r", Type: "t", AppID: "app",
		Timestamp: time.Unix(1_700_000_000, 0), Expiration: "5000", UserID: "guest", Priority: 7,
	}
	at := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	s.Within(t, true, func(ctx context.Context, tx Tx) error { return tx.Publish(ctx, sent, message.At(at)) })
	got := s.published(t, 1, 0)[0]
	if !bytes.Equal(got.Message.Body, sent.Body) || fmt.Sprint(got.Message.Headers) != fmt.Sprint(sent.Headers) {
		t.Errorf("got %q and %v, want %q and %v", got.Message.Body, got.Message.Headers, sent.Body, sent.Headers)
	}
	if _, ok := got.Message.Headers["float"].(float64); !ok {
		t.Errorf("a float came out as %T", got.Message.Headers["float"])
	}
	got.Message.Body, got.Message.Headers, sent.Body, sent.Headers = nil, nil, nil, nil
	if fmt.Sprint(got.Message) != fmt.Sprint(sent) || got.When != message.At(at) {
		t.Errorf("got %+v at %+v, want %+v at %+v", got.Message, got.When, sent, message.At(at))
	}
}

func plainSQL(t *testing.T, s Subject) {
	t.Helper()
	before := time.Now()
	s.Within(t, true, func(ctx context.Context, tx Tx) error {
		return errors.Join(
			tx.Exec(ctx, `INSERT INTO delaybridge_outbox (message_id, routing_key, delay_ms, body) VALUES ('o-1', 'order.unpaid', 60000, '{"order":1}')`),
			tx.Exec(ctx, `INSERT INTO delaybridge_outbox (action, message_id) VALUES ('cancel', 'o-2')`),
		)
	})
	got := s.published(t, 1, 0)[0]
	due, absolute := got.When.Instant()
	if m := got.Message; m.ID != "o-1" || string(m.Body) != `{"order":1}` || m.RoutingKey != "order.unpaid" || len(m.Headers) != 0 || !absolute {
		t.Errorf("got %+v, %v", m, absolute)
	}
	if early, late := before.Add(time.Minute).Sub(due), time.Until(due); early > time.Second || late > time.Minute+time.Second {
		t.Errorf("due %v, a minute after %v", due, before)
	}
}

func delayRuns(t *testing.T, s Subject) {
	t.Helper()
	s.publish(t, "m")
	both := s.published(t, 2, 1) // no server was reached, and then one
	first, again := both[0], both[1]
	due, _ := first.When.Instant()
	if left := time.Until(due); first.When != again.When || left > time.Minute || left < 50*time.Second {
		t.Errorf("due %v, and then %v; want the same, in less than a minute", first.When, again.When)
	}
}

// publication is what a relay has published, or tried to.
type publication struct {
	Message message.Message
	When    message.When
}

// recorder notes down what it is to publish, and fails at first.
type recorder struct {
	mu    sync.Mutex
	fails int
	calls []publication
	more  chan struct{}
}

func (r *recorder) Publish(_ context.Context, m message.Message, w message.When) (producer.Receipt, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, publication{m, w})
	r.more <- struct{}{}
	if r.fails--; r.fails >= 0 {
		return producer.Receipt{}, producer.ErrNotSent
	}
	return producer.Receipt{}, nil
}

// published are the first n calls by which a relay publishes, of which some fail.
func (s Subject) published(t testing.TB, n, fails int) []publication {
	t.Helper()
	r := &recorder{fails: fails, more: make(chan struct{}, 100)}
	relay, err := outbox.NewRelay(outbox.RelayConfig{Store: s.Store, Publisher: r, Poll: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	for range n {
		select {
		case <-r.more:
		case <-time.After(time.Minute):
			t.Fatal("nothing was published")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls
}

func refused(t *testing.T, s Subject) {
	t.Helper()
	for name, bad := range map[string]message.Message{
		"no ID":        {RoutingKey: "k"},
		"no UTF-8":     {ID: "\xff", RoutingKey: "k"},
		"a zero byte":  {ID: "a\x00", RoutingKey: "k"},
		"bytes":        {ID: "m", RoutingKey: "k", Headers: amqp.Table{"raw": []byte("x")}},
		"its own name": {ID: "m", RoutingKey: "k", Headers: amqp.Table{"x-delaybridge-due": "x"}},
	} {
		s.Within(t, true, func(ctx context.Context, tx Tx) error {
			if err := tx.Publish(ctx, bad, message.After(time.Second)); !errors.Is(err, outbox.ErrInvalid) {
				t.Errorf("%s: got %v, want ErrInvalid", name, err)
			}
			return nil
		})
	}
	s.Within(t, true, func(ctx context.Context, tx Tx) error { // and goes on
		if err := tx.Cancel(ctx, ""); !errors.Is(err, outbox.ErrInvalid) {
			t.Errorf("got %v, want ErrInvalid", err)
		}
		if err := tx.Publish(ctx, order("m"), message.After(-1)); !errors.Is(err, outbox.ErrInvalid) {
			t.Errorf("got %v, want ErrInvalid", err)
		}
		return tx.Publish(ctx, order("good"), message.After(0))
	})
	s.wantTaken(t, "publish good")
}

func inOrder(t *testing.T, s Subject) {
	t.Helper()
	s.publish(t, "a", "b")
	s.Within(t, true, func(ctx context.Context, tx Tx) error {
		return errors.Join(tx.Reschedule(ctx, "a", message.After(time.Hour)), tx.Cancel(ctx, "b"))
	})
	s.Within(t, true, func(ctx context.Context, tx Tx) error { return tx.Cancel(ctx, "a") })
	s.wantTaken(t, "publish a", "publish b")
	s.wantTaken(t, "cancel b", "reschedule a")
	s.wantTaken(t, "cancel a")
	s.wantTaken(t)
}

// Many take at once what is inserted meanwhile: each row is sent once, and those of an ID in
// their order.
func shared(t *testing.T, s Subject) {
	t.Helper()
	const writers, each, takers, n = 4, 25, 6, 4 * 25 * 3
	var mu sync.Mutex
	sent := map[string][]int64{}
	total := 0
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				id := fmt.Sprintf("%d-%d", w, i)
				for range 2 { // the next one at once, in a transaction of its own
					s.publish(t, id)
				}
				s.Within(t, true, func(ctx context.Context, tx Tx) error { return tx.Cancel(ctx, id) })
			}
		})
	}
	for range takers {
		all.Go(func() {
			for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
				_, err := s.Store.Take(t.Context(), 5, func(_ context.Context, rows []outbox.Row) []outbox.Sent {
					time.Sleep(rand.N(3 * time.Millisecond)) //nolint:gosec // a pause, no secret
					mu.Lock()
					defer mu.Unlock()
					for _, r := range rows {
						sent[r.MessageID] = append(sent[r.MessageID], r.Seq)
						total++
					}
					return as(rows, outbox.Sent{Done: true})
				})
				mu.Lock()
				over := total >= n
				mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				if over || err != nil {
					return
				}
			}
		})
	}
	all.Wait()
	if len(sent) != writers*each || total != n {
		t.Errorf("sent %d rows of %d IDs, want %d of %d", total, len(sent), n, writers*each)
	}
	for id, seqs := range sent {
		if !slices.IsSorted(seqs) || len(slices.Compact(slices.Clone(seqs))) != 3 {
			t.Errorf("%s: sent rows %v, want three in their order", id, seqs)
		}
	}
}

func setAside(t *testing.T, s Subject) {
	t.Helper()
	s.publish(t, "bad", "good")
	s.Within(t, true, func(ctx context.Context, tx Tx) error { return tx.Cancel(ctx, "bad") })
	s.take(t, 100, func(_ context.Context, rows []outbox.Row) []outbox.Sent {
		all := as(rows, outbox.Sent{Done: true})
		for i, r := range rows {
			if r.MessageID == "bad" {
				all[i] = outbox.Sent{Seq: r.Seq, Failed: "it's bad"}
			}
		}
		return all
	})
	failed, err := s.Store.Failed(t.Context(), 10)
	if err != nil || len(failed) != 1 || failed[0].MessageID != "bad" || failed[0].Reason != "it's bad" || time.Since(failed[0].At) > time.Minute {
		t.Fatalf("got %+v, %v; want one row, with its reason", failed, err)
	}
	if b, err := s.Store.Backlog(t.Context()); err != nil || b.Waiting != 1 || b.Failed != 1 || b.Oldest < 0 || b.Oldest > time.Minute {
		t.Errorf("got %+v, %v; want one row waiting, and one failed", b, err)
	}
	s.wantTaken(t, "cancel bad")
	for _, seqs := range [][]int64{{failed[0].Seq + 1000}, {failed[0].Seq}, nil} {
		want := int64(0)
		if len(seqs) == 1 && seqs[0] == failed[0].Seq {
			want = 1
		}
		if n, err := s.Store.Retry(t.Context(), seqs...); err != nil || n != want {
			t.Errorf("retry %v: got %d, %v; want %d", seqs, n, err, want)
		}
	}
	s.wantTaken(t, "publish bad")
	if b, err := s.Store.Backlog(t.Context()); err != nil || b != (outbox.Backlog{}) {
		t.Errorf("got %+v, %v; want nothing", b, err)
	}
}

func triedAgain(t *testing.T, s Subject) {
	t.Helper()
	s.publish(t, "m", "n")
	began := time.Now()
	s.take(t, 1, func(_ context.Context, rows []outbox.Row) []outbox.Sent { return as(rows, outbox.Sent{}) })
	s.wantTaken(t, "publish n")
	for len(s.take(t, 100, done)) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	if took := time.Since(began); took < outbox.RetryPause-time.Second {
		t.Errorf("tried again after %v, want %v", took, outbox.RetryPause)
	}
}

func held(t *testing.T, s Subject) {
	t.Helper()
	s.publish(t, "m")
	s.take(t, 100, func(_ context.Context, rows []outbox.Row) []outbox.Sent { return as(rows, outbox.Sent{Held: true}) })
	s.wantTaken(t, "publish m")
}

// A process that dies while it sends leaves its rows to others.
func notNoted(t *testing.T, s Subject) {
	t.Helper()
	s.publish(t, "m")
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := s.Store.Take(ctx, 100, func(_ context.Context, rows []outbox.Row) []outbox.Sent {
		cancel()
		return as(rows, outbox.Sent{Done: true})
	}); err == nil {
		t.Fatal("the context had ended")
	}
	began := time.Now()
	for len(s.take(t, 100, done)) == 0 {
		if time.Since(began) > s.Free+time.Minute {
			t.Fatalf("not free after %v", time.Since(began))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func woken(t *testing.T, s Subject) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wakes := make(chan struct{}, 100)
	ended := make(chan error, 1)
	go func() {
		ended <- s.Store.Listen(ctx, 100*time.Millisecond, func() {
			select {
			case wakes <- struct{}{}:
			default:
			}
		})
	}()
	<-wakes
	s.publish(t, "m")
	for len(s.take(t, 100, done)) == 0 {
		select {
		case <-wakes:
		case <-time.After(time.Minute):
			t.Fatal("not woken")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
