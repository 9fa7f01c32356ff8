package quarantine_test

import (
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/quarantine"
	"github.com/delaybridge/delaybridge/message"
)

func TestEverythingThatIsSetApplies(t *testing.T) {
	t.Parallel()
	since := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	m := &quarantine.Message{
		Message: message.Message{ID: "o-17", RoutingKey: "order.unpaid", Journey: message.Journey{Queue: "billing"}},
		Error:   "dial: connection refused", Since: since,
	}
	unknown := *m
	unknown.Since = time.Time{}
	for name, c := range map[string]struct {
		filter    quarantine.Filter
		want, old bool // for m, and without an instant
	}{
		"nothing":         {quarantine.Filter{}, true, true},
		"its ID":          {quarantine.Filter{IDs: []string{"o-1", "o-17"}}, true, true},
		"another ID":      {quarantine.Filter{IDs: []string{"o-1"}}, false, false},
		"its prefix":      {quarantine.Filter{IDPrefix: "o-1"}, true, true},
		"another prefix":  {quarantine.Filter{IDPrefix: "p"}, false, false},
		"its key":         {quarantine.Filter{Key: "order.unpaid"}, true, true},
		"another key":     {quarantine.Filter{Key: "order"}, false, false},
		"its queue":       {quarantine.Filter{Queue: "billing"}, true, true},
		"another queue":   {quarantine.Filter{Queue: "bill"}, false, false},
		"its error":       {quarantine.Filter{Error: "refused"}, true, true},
		"another error":   {quarantine.Filter{Error: "timeout"}, false, false},
		"since then":      {quarantine.Filter{Since: since}, true, false},
		"since later":     {quarantine.Filter{Since: since.Add(1)}, false, false},
		"until later":     {quarantine.Filter{Until: since.Add(1)}, true, false},
		"until then":      {quarantine.Filter{Until: since}, false, false},
		"all that is set": {quarantine.Filter{Queue: "billing", Error: "timeout"}, false, false},
	} {
		if got := c.filter.Matches(m); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if got := c.filter.Matches(&unknown); got != c.old {
			t.Errorf("%s, without an instant: %v, want %v", name, got, c.old)
		}
		if got := c.filter.Empty(); got != (name == "nothing") {
			t.Errorf("%s is empty: %v", name, got)
		}
	}
}
