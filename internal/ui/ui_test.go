package ui_test

import (
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/internal/servers/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// instant matches RFC 3339, to the second or to the millisecond.
const instant = `2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z`

// page is the way to one entity of the default virtual host.
func page(kind, name string) string { return kind + "/%2F/" + name }

// heading finds the heading of a section, for a screenshot.
func heading(text string) string {
	return "[...document.querySelectorAll('#main h2')].find(h => h.innerText.startsWith('" + text + "'))"
}

func TestManagementUI(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.load()
	b := openBrowser(t)
	b.signIn(s.rabbit.ManagementURL())
	t.Run("each page explains itself", func(t *testing.T) { eachPage(b.in(t)) })
	t.Run("each message explains itself", func(t *testing.T) { eachMessage(b.in(t)) })
}

func eachPage(b *browser) {
	b.t.Helper()
	b.shows("Overview", "Totals", "Queued messages", "Connections:", "Queues:")
	b.screenshot("overview", "")

	// What is parked, without opening anything.
	b.open("queues", "Queues")
	b.matches(
		`delaybridge\.\([1-9][\d,]* parked in Redis, next due `+instant+`\) classic`,
		`delaybridge\.tier\.30m quorum`, `delaybridge\.lane\.30s\.3 quorum`, `delaybridge\.inbox quorum`,
		`delaybridge\.quarantine quorum`, `delaybridge\.unrouted quorum`, `billing quorum`,
	)
	b.screenshot("queues", "")
	b.follow("queues/", "parked in Redis", "Queue delaybridge.(")
	b.matches(`shown by: host-1-\w{8}`, `parked for: (straight to ready: [\d,]+, )?lane `, "its name says how many wait in Redis")
	b.screenshot("parked", "")

	b.open("connections", "Connections")
	b.shows("delaybridge bridge host-1: promotes", "delaybridge bridge host-1: takes in", "delaybridge producer",
		"consumer of billing", "consumer of billing, quarantine", "shop in another language")
	b.screenshot("connections", "")
	b.follow("connections/", "host-1: promotes", "name delaybridge bridge host-1: promotes")
	b.unfold("Client properties")
	b.matches("information publishes what was parked in Redis into its lane, shortly before it is due",
		`bridge host-1-\w{8}`, "prefix delaybridge", "shards 4", "product delaybridge", `version \S+`, `platform go1\.`)
	b.screenshot("connection", heading("Client properties"))

	b.open("channels", "Channels")
	b.matches(`:\d+ \(1\)`, `1,?024`)

	b.open("exchanges", "Exchanges")
	b.shows("delaybridge.entry headers", "delaybridge.ready topic", "delaybridge.retry direct", "delaybridge.tier.30m fanout")
	b.open(page("exchanges", "delaybridge.entry"), "Exchange: delaybridge.entry")
	b.unfold("Bindings")
	b.shows("about: Publish here, with the delay in header x-delay (milliseconds)", "alternate-exchange: delaybridge.inbox",
		"delaybridge.tier.30m x-delay: 1800000 x-match: all-with-x")
	b.screenshot("entry", "")

	b.open(page("queues", "delaybridge.inbox"), "Queue delaybridge.inbox")
	b.unfold("Consumers")
	b.matches("about: Messages whose delay equals no tier: a bridge takes them in", `host-1-\w{8}: parks these in Redis`)
	b.follow("channels/", "", "Channel: ")
	b.unfold("Consumers")
	b.matches(`host-1-\w{8}: parks these in Redis`, `delaybridge\.inbox`)

	b.open(page("queues", billing), "Queue "+billing)
	b.unfold("Consumers", "Bindings")
	b.shows("consumer of billing: up to 10 at a time", "delaybridge.ready billing")

	b.open("policies", "Policies")
	b.shows("... no policies ...")
}

// eachMessage fetches one of each path.
func eachMessage(b *browser) {
	b.t.Helper()
	for _, look := range []struct {
		queue, about string
		shown        []string // of its messages
	}{
		{"delaybridge.tier.30m", "A tier: each message stays for exactly 30m", []string{"path: tier 30m", "published: ", "due: "}},
		// Of a client in another language nobody but itself could say more.
		{"delaybridge.tier.10m", "A tier: each message stays for exactly 10m", []string{"Exchange delaybridge.entry Routing Key billing", "x-delay: 600000"}},
		{"delaybridge.lane.30s.0", "A lane: messages that were parked in Redis (shard 0) spend their last 30s here", []string{"path: parked, then lane 30s", "published: ", "due: "}},
		{archive, "", []string{"path: parked, then lane 1s", "published: ", "due: ", "queue: delaybridge.tier.1s reason: expired"}},
		{"delaybridge.unrouted", "for whose routing key nobody has bound a queue", []string{"Routing Key nobody", "path: tier 1s"}},
		{"delaybridge.quarantine", "each with the reason in its header x-delaybridge-error", []string{
			"error: there is no order 42", "queue: broken", "attempts: 1", "history: ", "quarantined: ", "published: ", "due: ", "path: tier 1s", "message_id: foreign-",
		}},
	} {
		b.open(page("queues", look.queue), "Queue "+look.queue)
		b.shows(look.about)
		patterns := make([]string, len(look.shown))
		for i, text := range look.shown {
			patterns[i] = pattern(text)
		}
		b.fetch(10, patterns...)
		b.screenshot("message-"+strings.TrimPrefix(look.queue, "delaybridge."), heading("Get messages"))
	}
}

// pattern is the regular expression for one of our headers, or for a text.
func pattern(text string) string {
	name, _, ok := strings.Cut(text, ": ")
	switch {
	case ok && strings.HasSuffix(text, ": ") && name == "history":
		return `x-delaybridge-history: ` + instant + ` broken: there is no order 42`
	case ok && strings.HasSuffix(text, ": "):
		return `x-delaybridge-` + name + `: ` + instant
	case ok && !strings.HasPrefix(name, "x-") && !strings.Contains(name, "_") && !strings.Contains(text, "reason"):
		return `x-delaybridge-` + text
	}
	return text
}
