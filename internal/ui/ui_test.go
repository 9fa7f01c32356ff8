package ui_test

import (
	"net/url"
	"testing"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

func TestManagementUI(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	s := newScene(t)
	s.load()
	b.signIn(s.rabbit.ManagementURL())
	vhost := "%2F/"
	for name, path := range map[string]string{
		"overview": "", "connections": "connections", "channels": "channels", "exchanges": "exchanges", "queues": "queues",
		"exchange-entry": "exchanges/" + vhost + "delaybridge.entry", "queue-tier": "queues/" + vhost + "delaybridge.tier.30m",
		"queue-lane": "queues/" + vhost + "delaybridge.lane.30s.0", "queue-inbox": "queues/" + vhost + "delaybridge.inbox",
		"policies": "policies",
	} {
		b.open(path)
		b.shows("Virtual")
		b.screenshot(name)
		t.Log(name, b.text())
	}
	_ = url.PathEscape
}
