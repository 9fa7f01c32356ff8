package redisbridge_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// A message is parked, rescheduled, looked up and cancelled. Only a bridge needs the broker.
func ExamplePark() {
	client, err := redisbridge.NewClient(os.Getenv("DELAYBRIDGE_REDIS_URL"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close() }()
	t, err := topology.New(topology.Config{Prefix: os.Getenv("DELAYBRIDGE_PREFIX")}) // the bridges' own
	if err != nil {
		fmt.Println(err)
		return
	}
	park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: client, Topology: t})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	ticket, err := park.Park(ctx, &message.Message{ID: "order-1", RoutingKey: "order.unpaid"}, message.After(30*time.Minute))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("due in", time.Until(ticket.Due).Round(time.Minute))

	moved, err := park.Reschedule(ctx, "order-1", message.After(time.Hour))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(moved.Outcome, "due in", time.Until(moved.Due).Round(time.Minute))

	state, err := park.Get(ctx, "order-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(state.State)

	for range 2 {
		cancelled, err := park.Cancel(ctx, "order-1")
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(cancelled.Outcome)
	}
	// Prints:
	// due in 30m0s
	// done due in 1h0m0s
	// parked
	// done
	// cancelled before
}

func TestExample(t *testing.T) {
	env := servertest.ForTest(t)
	t.Setenv("DELAYBRIDGE_REDIS_URL", env.RedisURL)
	t.Setenv("DELAYBRIDGE_PREFIX", env.Prefix)
	if got, want := servertest.Printed(t, ExamplePark), "due in 30m0s\ndone due in 1h0m0s\nparked\ndone\ncancelled before\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
