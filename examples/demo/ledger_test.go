package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/consumer/orders"
	"github.com/delaybridge/delaybridge/internal/wire"
	"github.com/delaybridge/delaybridge/message"
)

func TestLedgerTellsInOrderAndKnowsTheEnd(t *testing.T) {
	t.Parallel()
	customers := []planned{
		{order: orders.Order{ID: "o-01"}, delay: 300 * time.Millisecond},
		{order: orders.Order{ID: "o-02"}, delay: time.Second, pays: time.Second, twice: true},
	}
	var told []string
	l := newLedger(customers, func(e event) { told = append(told, e.id+" "+strings.Fields(e.what)[0]) })
	l.begin()
	ended := func() bool {
		select {
		case <-l.settled:
			return true
		default:
			return false
		}
	}
	on := delivered{at: time.Now(), outcome: orders.OutcomeClosed}

	l.wasPromoted("o-01", wire.ReadyPath) // before its publisher has the answer
	l.wasDelivered("o-01", on)
	l.wasPlaced(customers[0], time.Now(), message.PathParked, 1)
	l.wasPlaced(customers[1], time.Now(), message.Path("tier 1s"), 2)
	l.wasRepeated("o-02", false)
	l.wasDelivered("somebody else's", on)
	l.wasDelivered("o-02", on)
	l.wasRefused("o-02")
	if ended() {
		t.Error("ended before the second message came")
	}
	l.wasDelivered("o-02", delivered{at: time.Now(), outcome: orders.OutcomeAlreadyClosed})
	if !ended() {
		t.Error("has not ended")
	}
	want := "[o-01 placed o-01 promoted o-01 due o-02 placed o-02 again o-02 due o-02 refused o-02 due]"
	if got := fmt.Sprint(told); got != want {
		t.Errorf("told %s\nwant %s", got, want)
	}
	if path := l.picture().rows[0].path; path != wire.ReadyPath {
		t.Errorf("the path is %q, want what the bridge said last", path)
	}
}
