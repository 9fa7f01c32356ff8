package redisbridge_test

import (
	"errors"
	"net/url"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/delaybridge/delaybridge/internal/servers/redisserver"
	"github.com/delaybridge/delaybridge/message"
	"github.com/delaybridge/delaybridge/redisbridge"
)

// A Redis that stands still accepts connections, and answers nothing. Over a connection of before the
// outcome is unknown. Over a new one nothing was sent but a greeting, so nothing is stored later either.
func TestRedisThatStandsStill(t *testing.T) {
	t.Parallel()
	p := newParking(t)
	address, err := url.Parse(p.store.URL())
	if err != nil {
		t.Fatal(err)
	}
	query := address.Query()
	query.Set("read_timeout", "2s")
	address.RawQuery = query.Encode()
	client := func() *redisbridge.Park {
		park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: connect(t, address.String()), Topology: p.topology})
		if err != nil {
			t.Fatal(err)
		}
		return park
	}
	park := func(park *redisbridge.Park, id string) error {
		_, err := park.Park(t.Context(), &message.Message{ID: id, RoutingKey: "k"}, anyHour())
		return err
	}
	early, late := client(), client()
	if err := park(early, "before"); err != nil {
		t.Fatal(err)
	}
	each := func(do func(*redisserver.Node) error) { // at once: the early one looks at Redis anew after some seconds
		var all errgroup.Group
		for _, node := range p.store.Nodes() {
			all.Go(func() error { return do(node) })
		}
		if err := all.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	each(func(node *redisserver.Node) error { return node.Pause(t.Context()) })
	if err := park(early, "before"); !errors.Is(err, redisbridge.ErrUnconfirmed) || errors.Is(err, redisbridge.ErrUnreachable) {
		t.Errorf("over a connection of before: %v, want ErrUnconfirmed", err)
	}
	if err := park(late, "late"); !errors.Is(err, redisbridge.ErrUnreachable) || errors.Is(err, redisbridge.ErrUnconfirmed) {
		t.Errorf("over a new connection: %v, want ErrUnreachable", err)
	}
	if _, err := late.Get(t.Context(), "before"); !errors.Is(err, redisbridge.ErrUnreachable) {
		t.Errorf("Get over a new connection: %v, want ErrUnreachable", err)
	}
	if _, err := early.Get(t.Context(), "before"); !errors.Is(err, redisbridge.ErrUnreachable) {
		t.Errorf("Get over a connection of before: %v, want ErrUnreachable", err)
	}
	each(func(node *redisserver.Node) error { return node.Resume(t.Context()) })
	if _, err := late.Get(t.Context(), "before"); err != nil {
		t.Error(err)
	}
	if state, err := late.Get(t.Context(), "late"); !errors.Is(err, redisbridge.ErrNotFound) {
		t.Errorf("what was not sent is known: %+v, %v", state, err)
	}
}
