package topology_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/topology"
)

func TestPlanShowsWhatApplyDoes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	plan, err := b.Plan(t.Context(), b.conn)
	if err != nil {
		t.Fatal(err)
	}
	if want := len(b.Exchanges()) + len(b.Queues()) + len(b.Bindings()); len(plan) != want {
		t.Errorf("%d changes planned, want %d", len(plan), want)
	}
	again, err := b.Plan(t.Context(), b.conn)
	if err != nil || !slices.Equal(again, plan) {
		t.Errorf("planning has changed something: %v (%v)", again, err)
	}
	if done := b.apply(t); !slices.Equal(done, plan) {
		t.Errorf("applied %v, planned %v", done, plan)
	}
}

func TestApplyTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply(t)
	if changes := b.apply(t); len(changes) != 0 {
		t.Errorf("applying again changed %v", changes)
	}
	if plan, err := b.Plan(t.Context(), b.conn); err != nil || len(plan) != 0 {
		t.Errorf("still planned: %v (%v)", plan, err)
	}
}

func TestSeveralApplyAtTheSameTime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	errs := make([]error, 4)
	var all sync.WaitGroup
	for i := range errs {
		conn := dial(t, b.env.AMQPURL)
		all.Go(func() { _, errs[i] = b.Apply(t.Context(), conn) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	b.verifiedWithout(t)
}

func TestApplyMakesARemovedBindingAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply(t)
	if err := b.channel(t).QueueUnbind(b.Inbox(), "", b.Inbox(), nil); err != nil {
		t.Fatal(err)
	}
	b.apply(t)
	b.publish(t, b.EntryExchange(), "order", amqp.Publishing{Body: []byte("1")})
	b.await(t, b.Inbox())
}

// Whatever is in the way, nothing else is created.
func TestApplyStopsAtAnEntityThatIsAnotherOne(t *testing.T) {
	t.Parallel()
	quorum := func(change func(amqp.Table)) func(*bench, *amqp.Channel) error {
		return func(b *bench, ch *amqp.Channel) error {
			queues := b.Queues()
			i := slices.IndexFunc(queues, func(q topology.Queue) bool { return q.Name == b.lane() })
			args := maps.Clone(queues[i].Args)
			change(args)
			_, err := ch.QueueDeclare(b.lane(), true, false, false, false, args)
			return err
		}
	}
	exchange := func(kind string, durable, internal bool, args amqp.Table) func(*bench, *amqp.Channel) error {
		return func(b *bench, ch *amqp.Channel) error {
			return ch.ExchangeDeclare(b.ReadyExchange(), kind, durable, false, internal, false, args)
		}
	}
	for name, test := range map[string]struct {
		prepare  func(*bench, *amqp.Channel) error
		argument string
		found    string
		wanted   string
	}{
		"TTL":                      {quorum(func(a amqp.Table) { a["x-message-ttl"] = int64(60000) }), "x-message-ttl", "60000", "1000"},
		"no TTL":                   {quorum(func(a amqp.Table) { delete(a, "x-message-ttl") }), "x-message-ttl", "none", "1000"},
		"dead-letter exchange":     {quorum(func(a amqp.Table) { a["x-dead-letter-exchange"] = "amq.topic" }), "x-dead-letter-exchange", "amq.topic", "READY"},
		"dead-letter strategy":     {quorum(func(a amqp.Table) { a["x-dead-letter-strategy"] = "at-most-once" }), "x-dead-letter-strategy", "at-most-once", "at-least-once"},
		"overflow":                 {quorum(func(a amqp.Table) { delete(a, "x-overflow") }), "x-overflow", "none", "reject-publish"},
		"delivery limit":           {quorum(func(a amqp.Table) { a["x-delivery-limit"] = int64(3) }), "x-delivery-limit", "3", "2147483647"},
		"a length limit":           {quorum(func(a amqp.Table) { a["x-max-length"] = int64(3) }), "x-max-length", "3", "none"},
		"exchange type":            {exchange("direct", true, false, nil), "type", "direct", "topic"},
		"exchange not durable":     {exchange("topic", false, false, nil), "durable", "false", "true"},
		"exchange internal":        {exchange("topic", true, true, nil), "internal", "true", "false"},
		"no alternate exchange":    {exchange("topic", true, false, nil), "alternate-exchange", "none", "UNROUTED"},
		"other alternate exchange": {exchange("topic", true, false, amqp.Table{"alternate-exchange": "amq.fanout"}), "alternate-exchange", "amq.fanout", "UNROUTED"},
		"classic queue": {func(b *bench, ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(b.Unrouted(), true, false, false, false, amqp.Table{"x-queue-type": "classic"})
			return err
		}, "x-queue-type", "classic", "quorum"},
		"exclusive queue": {func(b *bench, _ *amqp.Channel) error {
			ch := dialed(t, b)
			_, err := ch.QueueDeclare(b.Unrouted(), false, false, true, false, nil)
			return err
		}, "exclusive", "true", "false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if err := test.prepare(b, b.channel(t)); err != nil {
				t.Fatal(err)
			}
			changes, err := b.Apply(t.Context(), b.conn)
			var mismatch *topology.MismatchError
			if !errors.As(err, &mismatch) {
				t.Fatalf("applied %v, error %v, want a MismatchError", changes, err)
			}
			names := strings.NewReplacer("READY", b.ReadyExchange(), "UNROUTED", b.Unrouted())
			found, wanted := names.Replace(test.found), names.Replace(test.wanted)
			if mismatch.Argument != test.argument || mismatch.Found != found || mismatch.Wanted != wanted {
				t.Errorf("%s %q, wanted %q; want %s %q, wanted %q", mismatch.Argument, mismatch.Found, mismatch.Wanted, test.argument, found, wanted)
			}
			for _, want := range []string{mismatch.Name, test.argument, "choose another prefix", "nothing was changed"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is missing in: %v", want, err)
				}
			}
			if got := b.existing(t); !slices.Equal(got, []string{mismatch.Name}) {
				t.Errorf("there are %v, want %s only", got, mismatch.Name)
			}
		})
	}
}

// lane is the name of the default entry's only lane.
func (b *bench) lane() string { return b.Lane(b.Leads()[0], 0) }

// dialed opens a channel on a connection of its own.
func dialed(t testing.TB, b *bench) *amqp.Channel {
	t.Helper()
	ch, err := dial(t, b.env.AMQPURL).Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

// existing names the queues and exchanges of this virtual host that have our prefix.
func (b *bench) existing(t testing.TB) []string {
	t.Helper()
	var names []string
	for _, kind := range []string{"queues", "exchanges"} {
		for _, entity := range b.list(t, kind) {
			if strings.HasPrefix(entity, b.Prefix()) {
				names = append(names, entity)
			}
		}
	}
	return names
}

func TestApplyReportsEveryMismatchAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ch := b.channel(t)
	for _, tier := range b.Tiers() {
		if _, err := ch.QueueDeclare(tier.Name, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := b.Apply(t.Context(), b.conn)
	for _, tier := range b.Tiers() {
		if err == nil || !strings.Contains(err.Error(), "queue "+tier.Name+" exists with") {
			t.Errorf("%s is missing in: %v", tier.Name, err)
		}
	}
}

// AMQP cuts a reason off at 255 bytes.
func TestMismatchOfALongName(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	long := describe(t, topology.Config{Prefix: b.Prefix() + "-" + strings.Repeat("x", 80)})
	name := long.Queues()[len(long.Queues())-1].Name
	if _, err := b.channel(t).QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	_, err := long.Plan(t.Context(), b.conn)
	var mismatch *topology.MismatchError
	if !errors.As(err, &mismatch) || mismatch.Name != name || mismatch.Wanted == "none" {
		t.Errorf("got %+v from: %v", mismatch, err)
	}
}

func TestApplyWithoutPermission(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		permissions string
		missing     []string // permissions; before 4.0 the broker tells less
	}{
		"nothing":       {`{"configure":"^$","write":"^$","read":"^$"}`, []string{"configure", "write"}},
		"no configure":  {`{"configure":"\\.tier\\.","write":".*","read":".*"}`, []string{"configure"}},
		"no write":      {`{"configure":".*","write":"\\.tier\\.","read":".*"}`, []string{"write"}},
		"no read":       {`{"configure":".*","write":".*","read":"\\.tier\\."}`, []string{"read"}},
		"all but ready": {`{"configure":".*","write":"(tier|lane|inbox|unrouted|quarantine|entry)","read":".*"}`, []string{"write"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			changes, err := b.Apply(t.Context(), dial(t, b.user(t, test.permissions)))
			var denied *topology.PermissionError
			if !errors.As(err, &denied) {
				t.Fatalf("applied %v, error %v, want a PermissionError", changes, err)
			}
			if !strings.HasPrefix(denied.Names[0], b.Prefix()) || !strings.Contains(err.Error(), b.Prefix()+"-user") {
				t.Errorf("no name or no user in: %v", err)
			}
			for _, permission := range test.missing {
				if !strings.Contains(err.Error(), permission+" permission") && !strings.Contains(err.Error(), "write or read permission") {
					t.Errorf("%s is missing in: %v", permission, err)
				}
			}
			if got := b.existing(t); len(got) != 0 {
				t.Errorf("%v was created", got)
			}
		})
	}
}

// What the error asks for is enough.
func TestApplyWithTheDocumentedPermissions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ours := `"^` + b.Prefix() + `\\."`
	conn := dial(t, b.user(t, `{"configure":`+ours+`,"write":`+ours+`,"read":`+ours+`}`))
	if _, err := b.Apply(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	b.verifiedWithout(t)
}

func TestApplyOverALostConnection(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if err := b.conn.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Apply(t.Context(), b.conn); !errors.Is(err, amqp.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

func TestApplyStopsWithItsContext(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Apply(ctx, b.conn); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want Canceled", err)
	}
	if got := b.existing(t); len(got) != 0 {
		t.Errorf("%v was created", got)
	}
}
