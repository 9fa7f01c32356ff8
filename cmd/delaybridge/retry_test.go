package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/consumer"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// retries is a consumer whose handler fails as often as the message's number says, with
// a Park as its Delayer and a bridge that brings the messages back.
type retries struct {
	t        *testing.T
	env      servertest.Env
	topology *topology.Topology

	mu       sync.Mutex
	due      map[string]time.Time // of a message's next attempt, at the earliest
	handled  map[string]bool
	outcomes map[consumer.Outcome]int
	changed  chan struct{}
}

const (
	retryAttempts = 4
	mostFailures  = 6 // of a message
)

func startRetries(t *testing.T) *retries {
	t.Helper()
	r := &retries{
		t: t, env: servertest.ForTest(t), due: map[string]time.Time{}, handled: map[string]bool{},
		outcomes: map[consumer.Outcome]int{}, changed: make(chan struct{}, 1),
	}
	var err error
	if r.topology, err = topology.New(topology.Config{Prefix: r.env.Prefix, Tiers: []time.Duration{200 * time.Millisecond, time.Second}, Lead: time.Second, Shards: 2}); err != nil {
		t.Fatal(err)
	}
	conn, err := amqp.Dial(r.env.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := r.topology.Apply(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	client, err := redisbridge.NewClient(r.env.RedisURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	bridge, err := redisbridge.New(redisbridge.Config{Client: client, AMQPURL: r.env.AMQPURL, Topology: r.topology})
	if err != nil {
		t.Fatal(err)
	}
	park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: client, Topology: r.topology})
	if err != nil {
		t.Fatal(err)
	}
	servertest.VerifyAfter(t, park)
	c, err := consumer.New(consumer.Config{
		AMQPURL: r.env.AMQPURL, Topology: r.topology, Queue: "billing", Bind: []string{"#"}, Handler: consumer.HandlerFunc(r.handle),
		Delayer: park, Retry: consumer.Retry{Attempts: retryAttempts}, Observe: r.observe,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.keep(bridge.Run)
	r.keep(c.Run)
	<-c.Ready()
	return r
}

// keep runs something until the end of the test.
func (r *retries) keep(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
	})
}

// failures returns how often a message fails before it can be handled.
func failures(id string) (n int) {
	_, _ = fmt.Sscanf(id, "m-%d", &n)
	return n % (mostFailures + 1)
}

func (r *retries) handle(_ context.Context, m message.Message) error {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	// A delay runs in whole milliseconds of Redis' clock.
	if early := r.due[attemptOf(m.ID, m.Journey.Attempts)].Sub(now); early >= time.Millisecond {
		r.t.Errorf("attempt %d of %s comes %v early", m.Journey.Attempts+1, m.ID, early)
	}
	if m.RoutingKey != "order.unpaid" || len(m.Journey.History) != m.Journey.Attempts {
		r.t.Errorf("got %+v", m)
	}
	if m.Journey.Attempts >= failures(m.ID) {
		return nil
	}
	pause := time.Duration(100+150*m.Journey.Attempts) * time.Millisecond
	if next := attemptOf(m.ID, m.Journey.Attempts+1); r.due[next].IsZero() { // the first of its duplicates
		r.due[next] = now.Add(pause)
	}
	return consumer.RetryAfter(pause, errors.New("not yet"))
}

func attemptOf(id string, attempt int) string { return fmt.Sprintf("%s, %d", id, attempt) }

func (r *retries) observe(o consumer.Observation) {
	r.mu.Lock()
	r.outcomes[o.Outcome]++
	if o.Outcome == consumer.Acknowledged || o.Outcome == consumer.Quarantined {
		if wanted := failures(o.Message.ID) >= retryAttempts; wanted != (o.Outcome == consumer.Quarantined) {
			r.t.Errorf("%s is %s after %d attempts", o.Message.ID, o.Outcome, o.Attempts)
		}
		r.handled[o.Message.ID] = true
	}
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// await waits until n messages have come to their end, and calls each whenever
// something happens.
func (r *retries) await(n int, each func(handled int)) {
	r.t.Helper()
	for deadline := time.After(2 * time.Minute); ; {
		r.mu.Lock()
		handled := len(r.handled)
		r.mu.Unlock()
		if handled == n {
			return
		}
		each(handled)
		select {
		case <-r.changed:
		case <-deadline:
			r.t.Fatalf("%d of %d messages have come to their end", handled, n)
		}
	}
}

// publish publishes n messages, of which from is the number of the first.
func (r *retries) publish(from, n int) {
	r.t.Helper()
	ch := channelOf(r.t, r.env.AMQPURL)
	if err := ch.Confirm(false); err != nil {
		r.t.Fatal(err)
	}
	for i := from; i < from+n; i++ {
		m := message.Message{ID: fmt.Sprintf("m-%d", i), RoutingKey: "order.unpaid"}
		confirmed, err := ch.PublishWithDeferredConfirm(r.topology.ReadyExchange(), m.RoutingKey, true, false, m.Publishing(message.Journey{}))
		if err != nil || !confirmed.Wait() {
			r.t.Fatalf("publish %s: %v", m.ID, err)
		}
	}
}

// The same on every version of the broker: the count is in the message.
func TestRetriesComeBackInTimeAndEndInQuarantine(t *testing.T) {
	t.Parallel()
	r := startRetries(t)
	const n = 210
	r.publish(0, n)
	r.await(n, func(int) {})
	quarantined := 0
	for i := range n {
		if failures(fmt.Sprintf("m-%d", i)) >= retryAttempts {
			quarantined++
		}
	}
	ch := channelOf(t, r.env.AMQPURL)
	if got := held(t, ch, r.topology.Quarantine()); got != quarantined {
		t.Errorf("%d messages in quarantine, want %d", got, quarantined)
	}
	d, _, err := ch.Get(r.topology.Quarantine(), true)
	if err != nil {
		t.Fatal(err)
	}
	m := r.topology.Message(&d)
	if j := m.Journey; j.Attempts != retryAttempts || len(j.History) != retryAttempts || j.Queue != "billing" || m.RoutingKey != "order.unpaid" {
		t.Errorf("got %+v", m)
	}
	if got := held(t, ch, r.topology.Unrouted()); got != 0 {
		t.Errorf("%d messages in unrouted", got)
	}
}

// A consumer that dies between parking a message and acknowledging it makes a
// duplicate, and loses nothing.
func TestRetriesSurviveLostConnections(t *testing.T) {
	t.Parallel()
	r := startRetries(t)
	const n, rounds = 100, 3
	for round := range rounds {
		var connections []string
		for deadline := time.After(time.Minute); len(connections) == 0; { // the broker lists them late
			connections = r.connections()
			select {
			case <-deadline:
				t.Fatal("the consumer is not connected")
			case <-time.After(100 * time.Millisecond):
			}
		}
		r.publish(n*round, n)
		r.await(n*(round+1), func(handled int) {
			if handled >= n*round+n/2 {
				for _, name := range connections {
					r.env.Manage(t, http.MethodDelete, "/api/connections/"+url.PathEscape(name), "")
				}
				connections = nil
			}
		})
		if connections != nil {
			t.Error("the connections were not cut")
		}
	}
}

// connections names those of the consumer.
func (r *retries) connections() (names []string) {
	var connections []struct {
		Name       string `json:"name"`
		Properties struct {
			Name string `json:"connection_name"`
		} `json:"client_properties"`
	}
	answer := r.env.Manage(r.t, http.MethodGet, "/api/vhosts/"+r.env.VHost+"/connections", "")
	if err := json.Unmarshal(answer, &connections); err != nil {
		r.t.Fatal(err)
	}
	for _, c := range connections {
		if strings.HasPrefix(c.Properties.Name, "consumer of") {
			names = append(names, c.Name)
		}
	}
	return names
}
