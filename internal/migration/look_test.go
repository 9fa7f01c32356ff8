package migration_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/internal/migration"
	"github.com/delaybridge/delaybridge/topology"
)

// node answers as the management API of a node of a cluster does.
func node(t *testing.T, overview string, delayed int) *topology.Management {
	t.Helper()
	mux := http.NewServeMux()
	answer := func(path, with string) {
		mux.HandleFunc("/api/"+path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(with)) })
	}
	answer("overview", overview)
	answer("exchanges/{vhost}", fmt.Sprintf(`[
		{"name": "orders", "type": "x-delayed-message", "arguments": {"x-delayed-type": "direct"}, "messages_delayed": %d, "message_stats": {"publish_in": 7}},
		{"name": "new", "type": "x-delayed-message", "arguments": {"x-delayed-type": "direct"}, "messages_delayed": 0},
		{"name": "delaybridge.entry.orders", "type": "headers", "arguments": {}, "message_stats": {"publish_in": 9}}]`, delayed))
	answer("nodes", `[{"name": "rabbit@a"}, {"name": "rabbit@b"}, {"name": "rabbit@c", "running": false}]`)
	answer("vhosts/{vhost}/connections", `[{"name": "one", "client_properties": {"connection_name": "checkout"}}, {"name": "two", "client_properties": []}]`)
	answer("vhosts/{vhost}/channels", `[
		{"connection_details": {"name": "one"}, "user": "app", "message_stats": {"publish": 5, "publish_details": {"rate": 1}}},
		{"connection_details": {"name": "two"}, "user": "app", "message_stats": {"publish": 9, "publish_details": {"rate": 2.5}}},
		{"connection_details": {"name": "one"}, "user": "app", "message_stats": {"publish": 6, "publish_details": {"rate": 2}}},
		{"connection_details": {"name": "three"}, "user": "app"},
		{"connection_details": [], "user": "app"}]`)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	m, err := topology.NewManagement(strings.Replace(server.URL, "http://", "http://user:secret@", 1), "shop")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Each node tells what it holds itself, but of all the cluster what was published.
func TestLookAddsUpWhatTheNodesHold(t *testing.T) {
	t.Parallel()
	a := node(t, `{"node": "rabbit@a", "rates_mode": "basic"}`, 3)
	b := node(t, `{"node": "rabbit@b", "rates_mode": "basic"}`, 4)
	look, err := migration.TakeLook(t.Context(), []*topology.Management{a, b}, map[string]string{"orders": "delaybridge.entry.orders"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(look.Nodes, look.NotAsked, look.Unknown); got != "[rabbit@a rabbit@b] [rabbit@c] []" {
		t.Errorf("nodes %s", got)
	}
	if len(look.Exchanges) != 2 {
		t.Fatalf("%+v", look.Exchanges)
	}
	if s := look.Exchanges[1]; s.Exchange != "orders" || *s.Delayed != 7 || *s.Published != 7 || *s.PublishedToEntry != 9 || s.Publishers != nil {
		t.Errorf("%+v", s)
	}
	if s := look.Exchanges[0]; s.Exchange != "new" || *s.Published != 0 || s.PublishedToEntry != nil { // nobody has published
		t.Errorf("%+v", s)
	}
	if got := fmt.Sprint(look.Publishers); got != "[{one checkout app  11 3} {two  app  9 2.5}]" {
		t.Errorf("publishers %s", got)
	}

	only, err := migration.TakeLook(t.Context(), []*topology.Management{a}, nil, []string{"new"})
	if err != nil || len(only.Exchanges) != 1 || only.Exchanges[0].Exchange != "new" {
		t.Errorf("only one: %+v, %v", only, err)
	}
	if _, err := migration.TakeLook(t.Context(), []*topology.Management{a, a}, nil, nil); !errors.Is(err, migration.ErrInput) || !strings.Contains(err.Error(), "rabbit@a") {
		t.Errorf("the same node twice: %v", err)
	}
}

func TestLookSaysWhatTheBrokerDoesNotTell(t *testing.T) {
	t.Parallel()
	for _, overview := range []string{`{"node": "rabbit@a", "rates_mode": "none"}`, `{"node": "rabbit@a", "rates_mode": "basic", "disable_stats": true}`} {
		look, err := migration.TakeLook(t.Context(), []*topology.Management{node(t, overview, 0)}, nil, nil)
		if err != nil || len(look.Unknown) != 1 || look.Exchanges[0].Published != nil {
			t.Errorf("%s: %+v, %v", overview, look, err)
		}
	}
	_, err := migration.TakeLook(t.Context(), []*topology.Management{node(t, `{"rates_mode": "basic"}`, 0)}, nil, nil)
	if !errors.Is(err, topology.ErrConfiguration) || !strings.Contains(err.Error(), `user "user"`) || !strings.Contains(err.Error(), "monitoring") {
		t.Errorf("a user who does not see the nodes: %v", err)
	}
}
