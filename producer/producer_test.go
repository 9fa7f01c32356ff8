package producer_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/producer"
)

func TestNewReportsEveryFaultAtOnce(t *testing.T) {
	t.Parallel()
	_, err := producer.New(producer.Config{AMQPURL: "http://h", Channels: -1, GiveUpAfter: -1, DrainTimeout: -1, Timeout: -1})
	if err == nil {
		t.Fatal("no error")
	}
	for _, field := range []string{"AMQPURL", "Topology", "Channels", "GiveUpAfter", "DrainTimeout", "Timeout"} {
		if !strings.Contains(err.Error(), "Config."+field) {
			t.Errorf("%q does not mention %s", err, field)
		}
	}
	if !errors.Is(err, producer.ErrConfiguration) {
		t.Errorf("%q does not wrap ErrConfiguration", err)
	}
}

func TestInvalidMessagesGoNowhere(t *testing.T) {
	t.Parallel()
	fake := &parker{ticket: message.Ticket{Parking: message.Parked}}
	p := newProducer(t, producer.Config{Parker: fake})
	later := message.After(time.Minute)
	change := func(change func(*message.Message)) message.Message {
		m := order("o-1")
		change(&m)
		return m
	}
	for name, c := range map[string]struct {
		m    message.Message
		w    message.When
		want string
	}{
		"empty ID":           {change(func(m *message.Message) { m.ID = "" }), later, "ID is empty"},
		"long ID":            {order(strings.Repeat("x", 256)), later, "ID of 256 bytes"},
		"long routing key":   {change(func(m *message.Message) { m.RoutingKey = strings.Repeat("x", 256) }), later, "routing key of 256 bytes"},
		"large body":         {change(func(m *message.Message) { m.Body = make([]byte, wire.MaxBodyBytes+1) }), later, "body of 16777217 bytes"},
		"negative delay":     {order("o-1"), message.After(-time.Second), "negative"},
		"delay over 10 year": {order("o-1"), message.After(message.MaxDelay + time.Second), "10 years"},
		"unknown entry":      {change(func(m *message.Message) { m.Entry = "orders" }), later, `entry "orders" is not configured: add it to the topology's entries`},
		"everything":         {message.Message{}, message.After(-1), "routing key is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := p.Publish(t.Context(), c.m, c.w)
			if !errors.Is(err, producer.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want ErrInvalid with %q", err, c.want)
			}
			if len(fake.parked) > 0 {
				t.Error("parked all the same")
			}
		})
	}
}

// Of who has a certificate, the URL may say who that is; otherwise only the broker knows.
func TestUserOfACertificate(t *testing.T) {
	t.Parallel()
	cert, key := servertest.NewAuthority(t).Issue(t, "client", time.Now().Add(time.Hour))
	m := order("o-1")
	m.UserID = "client"
	for user, want := range map[string]string{"": "the broker alone knows: name it in the AMQP URL", "client@": "", "other@": `not the user of the AMQP connection, "other"`} {
		fake := &parker{ticket: message.Ticket{Parking: message.Parked}}
		p := newProducer(t, producer.Config{Parker: fake, AMQPURL: "amqps://" + user + "127.0.0.1:1/?auth_mechanism=external&certfile=" + cert + "&keyfile=" + key})
		_, err := p.Publish(t.Context(), m, message.After(time.Minute))
		if want == "" && err != nil || want != "" && (!errors.Is(err, producer.ErrInvalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", user, err, want)
		}
	}
}

func TestParkersAnswers(t *testing.T) {
	t.Parallel()
	due := time.UnixMilli(1_900_000_000_123)
	broken := errors.New("out of memory")
	for name, c := range map[string]struct {
		ticket  message.Ticket
		err     error
		want    producer.Receipt
		wantErr []error
	}{
		"parked": {
			ticket: message.Ticket{Parking: message.Parked, Due: due},
			want:   producer.Receipt{Path: message.PathParked, Due: due},
		},
		"parked before": {
			ticket: message.Ticket{Parking: message.ParkedBefore, Due: due},
			want:   producer.Receipt{Path: message.PathParked, Due: due, Duplicate: true},
		},
		"refused": {
			err:     broken,
			wantErr: []error{producer.ErrNotSent, broken},
		},
		"unconfirmed": {
			err:     errors.Join(producer.ErrUnconfirmed, broken),
			wantErr: []error{producer.ErrUnconfirmed, broken},
		},
		"nonsense": {
			wantErr: []error{producer.ErrUnconfirmed},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProducer(t, producer.Config{Parker: &parker{ticket: c.ticket, err: c.err}})
			got, err := p.Publish(t.Context(), order("o-1"), message.After(7*time.Second))
			for _, want := range c.wantErr {
				if !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
			}
			if len(c.wantErr) == 0 && (err != nil || got != c.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, c.want)
			}
			if err != nil && !strings.Contains(err.Error(), "o-1") {
				t.Errorf("%q does not name the message", err)
			}
		})
	}
}

func TestOnlyDelaysBetweenTiersArePutIntoTheParkersHands(t *testing.T) {
	t.Parallel()
	fake := &parker{ticket: message.Ticket{Parking: message.Parked}}
	p := newProducer(t, producer.Config{Parker: fake, Untracked: true})
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	for _, w := range []message.When{{}, message.After(time.Second), message.After(time.Hour)} {
		if _, err := p.Publish(ctx, order("for the broker"), w); !errors.Is(err, producer.ErrNotSent) {
			t.Errorf("%+v without a broker: got %v, want ErrNotSent", w, err)
		}
	}
	parked := []message.When{
		message.After(time.Millisecond), message.After(time.Second + time.Millisecond), message.After(message.MaxDelay),
		message.At(time.Now().Add(time.Second)), message.At(time.Unix(0, 0)),
	}
	for _, w := range parked {
		if _, err := p.Publish(t.Context(), order("for the parker"), w); err != nil {
			t.Errorf("%+v: %v", w, err)
		}
	}
	if len(fake.parked) != len(parked) {
		t.Errorf("parked %d messages, want %d", len(fake.parked), len(parked))
	}
}

func TestPublishSaysWhyItWaitedInVain(t *testing.T) {
	t.Parallel()
	p := newProducer(t, producer.Config{AMQPURL: "amqp://guest:s3cret@127.0.0.1:1/"})
	run(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	_, err := p.Publish(ctx, order("o-1"), message.When{})
	if !errors.Is(err, producer.ErrNotSent) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("got %v, want ErrNotSent, the context's error and the address", err)
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%q has the password in it", err)
	}
}

func TestRunOnce(t *testing.T) {
	t.Parallel()
	p := newProducer(t, producer.Config{})
	run(t, p)()
	if err := p.Run(t.Context()); err == nil {
		t.Error("a second Run: no error")
	}
	if _, err := p.Publish(t.Context(), order("o-1"), message.When{}); !errors.Is(err, producer.ErrNotSent) || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("Publish after Run: got %v, want ErrNotSent", err)
	}
}

func TestRunEndsWhenItGivesUp(t *testing.T) {
	t.Parallel()
	p := newProducer(t, producer.Config{GiveUpAfter: time.Millisecond, Parker: &parker{}})
	if err := p.Run(t.Context()); !errors.Is(err, producer.ErrUnreachable) {
		t.Errorf("got %v, want ErrUnreachable", err)
	}
	for _, w := range []message.When{{}, message.After(7 * time.Second)} {
		if _, err := p.Publish(t.Context(), order("o-1"), w); !errors.Is(err, producer.ErrNotSent) || !errors.Is(err, producer.ErrUnreachable) {
			t.Errorf("Publish after that: got %v, want ErrNotSent and ErrUnreachable", err)
		}
	}
}

func TestDrainWaitsForWorkInHand(t *testing.T) {
	t.Parallel()
	fake := &parker{hangs: make(chan struct{})}
	p := newProducer(t, producer.Config{Parker: fake, DrainTimeout: patience})
	stop := run(t, p)
	working, finish := context.WithCancel(t.Context())
	published := make(chan error, 1)
	go func() {
		_, err := p.Publish(working, order("o-1"), message.After(7*time.Second))
		published <- err
	}()
	<-fake.hangs
	var finished atomic.Bool
	time.AfterFunc(soon, func() {
		finished.Store(true)
		finish()
	})
	stop()
	if !finished.Load() {
		t.Error("Run ended before the message that was under way")
	}
	if err := <-published; !errors.Is(err, producer.ErrUnconfirmed) {
		t.Errorf("got %v, want ErrUnconfirmed", err)
	}
}

func TestDrainDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	fake := &parker{hangs: make(chan struct{})}
	p := newProducer(t, producer.Config{Parker: fake, DrainTimeout: soon})
	stop := run(t, p)
	working, finish := context.WithCancel(t.Context())
	published := make(chan struct{})
	go func() {
		defer close(published)
		_, _ = p.Publish(working, order("o-1"), message.After(7*time.Second))
	}()
	<-fake.hangs
	stop()
	finish()
	<-published
}

func TestPublishHasADeadline(t *testing.T) {
	t.Parallel()
	p := newProducer(t, producer.Config{Timeout: soon})
	defer run(t, p)()
	_, err := p.Publish(context.WithoutCancel(t.Context()), message.Message{ID: "m", RoutingKey: "k"}, message.After(time.Minute))
	if !errors.Is(err, producer.ErrNotSent) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want ErrNotSent and DeadlineExceeded", err)
	}
}

func TestRunWasNotCalled(t *testing.T) {
	t.Parallel()
	_, err := newProducer(t, producer.Config{}).Publish(t.Context(), message.Message{ID: "m", RoutingKey: "k"}, message.After(time.Minute))
	if !errors.Is(err, producer.ErrNotSent) || !strings.Contains(err.Error(), "call Run") {
		t.Errorf("got %v, want ErrNotSent, and what to call", err)
	}
}
