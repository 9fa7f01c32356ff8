package message_test

import (
	"math"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/internal/wiretest"
	"github.com/delaybridge/delaybridge/message"
)

// Each row of the contract means what the table says; TestEachValueOnRealServers of
// package redisbridge has the rest of the way.
func TestWhenFromHeaders(t *testing.T) {
	t.Parallel()
	const file = "../docs/wire-contract.md"
	wiretest.SameAsTheDocument(t, file)
	for _, c := range wiretest.Cases(false) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			headers := c.Headers(instant())
			for name, value := range headers {
				if long, ok := value.(wiretest.Long); ok {
					headers[name] = int64(long) // as the broker hands it over
				}
			}
			if c.Fate == wiretest.Tier || c.Fate == wiretest.Direct { // where the broker looks at nothing else
				headers = amqp.Table{wire.HeaderDelay: headers[wire.HeaderDelay]}
			}
			got, err := message.WhenFromHeaders(headers, instant())
			switch {
			case c.Fate == wiretest.Quarantine || c.Fate == wiretest.Refused:
				if err == nil || !strings.Contains(err.Error(), c.Reason) || got != (message.When{}) {
					t.Errorf("got %+v, %v; want an error that says %q", got, err, c.Reason)
				}
				if err != nil && len(err.Error()) > 300 {
					t.Errorf("the error is %d bytes long", len(err.Error()))
				}
			case err != nil:
				t.Error(err)
			case c.At != nil:
				if got != message.At(c.At(instant())) {
					t.Errorf("got %+v, want the instant %v", got, c.At(instant()))
				}
			case c.After != 0:
				if got != message.After(c.After) {
					t.Errorf("got %+v, want a delay of %v", got, c.After)
				}
			default:
				if due := got.From(instant()); due.After(instant()) {
					t.Errorf("got %+v, want at once", got)
				}
			}
		})
	}
}

func TestLongTextIsCutInTheReason(t *testing.T) {
	t.Parallel()
	_, err := message.WhenFromHeaders(amqp.Table{"x-delay": strings.Repeat("y", 9999)}, instant())
	if err == nil || !strings.Contains(err.Error(), `"`+strings.Repeat("y", 40)+`" is not a number`) || len(err.Error()) > 300 {
		t.Errorf("got %v", err)
	}
}

func FuzzWhenFromHeaders(f *testing.F) {
	f.Add("5000", int64(0), 0.5)
	f.Add(" -1e3", int64(math.MinInt64), math.Inf(-1))
	f.Fuzz(func(t *testing.T, text string, whole int64, float float64) {
		for _, value := range []any{text, whole, float, float32(float), int32(whole)} {
			for _, name := range []string{wire.HeaderDelay, wire.HeaderDeliverAt, wire.HeaderDeliveryTime, wire.HeaderDeliveryDelay} {
				w, err := message.WhenFromHeaders(amqp.Table{name: value}, instant())
				if err != nil {
					continue
				}
				if err := w.Validate(instant()); err != nil {
					t.Errorf("%s %v was taken for what is not valid: %v", name, value, err)
				}
			}
		}
	})
}
