package redisbridge

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// BridgeReport is what a bridge says of itself. It renews it with its entry in the
// register, every 15 s, and every 2 s while it has something to do.
type BridgeReport struct {
	// ID is that of [Bridge.ID].
	ID string `json:"id"`
	// At is when the report was made, by Redis' clock. It is zero where a bridge makes
	// none, as one of an earlier release; then nothing but ID is known.
	At time.Time `json:"at,omitzero"`
	// Name is that of Config.Name, and Host that of the machine.
	Name string `json:"name,omitempty"`
	Host string `json:"host,omitempty"`
	// Version is the release of this module.
	Version string `json:"version,omitempty"`
	// Started is when the bridge was made, by Redis' clock.
	Started time.Time `json:"started,omitzero"`
	// Shards are those that it owns.
	Shards []int `json:"shards,omitempty"`
	// Claimed and Settled count messages since the start, PerSecond since the report
	// before.
	Claimed          int64   `json:"claimed"`
	ClaimedPerSecond float64 `json:"claimed_per_s"`
	Settled          int64   `json:"settled"`
	SettledPerSecond float64 `json:"settled_per_s"`
	// PromotionLate is how long after the instant of their promotion messages were
	// claimed in the last minute: that makes no message late, as long as it is less than
	// its lane's TTL. ReadyLate is how long after they were due RabbitMQ had messages that
	// went straight to the ready exchange, or back to their queue.
	PromotionLate Spread `json:"promotion_late"`
	ReadyLate     Spread `json:"ready_late"`
	// Reconnects is how often a connection to RabbitMQ was made again.
	Reconnects int64 `json:"reconnects"`
	// WithoutID counts the messages that the bridge has taken in since its start and that
	// came without a message-id.
	WithoutID int64 `json:"without_id,omitempty"`
	// Conditions are what the bridge sees to be wrong.
	Conditions []ReportedCondition `json:"conditions,omitempty"`
}

// Spread sums up durations.
type Spread struct {
	Messages int64 `json:"messages"`
	// P50 and P99 are in ms, rounded up by a quarter at most, and 0 without messages.
	P50 int64 `json:"p50_ms"`
	P99 int64 `json:"p99_ms"`
}

// Bridges returns the reports of the bridges alive, sorted by ID. It costs one command.
func (p *Park) Bridges(ctx context.Context) ([]BridgeReport, error) {
	reports, err := p.bridges(ctx)
	if err != nil {
		return nil, fmt.Errorf("list bridges: %w", err)
	}
	return reports, nil
}

func (p *Park) bridges(ctx context.Context) ([]BridgeReport, error) {
	if err := p.check(ctx); err != nil {
		return nil, err
	}
	t := p.config.Topology
	answer, err := p.scripts.bridges.Run(ctx, p.config.Client, []string{registerKey(t), reportsKey(t)}).Slice()
	if err != nil {
		return nil, classify(err)
	}
	r := reply{rest: answer}
	r.int() // Redis' clock
	var reports []BridgeReport
	for len(r.rest) > 0 && r.err == nil {
		id := r.string()
		reports = append(reports, readReport(id, r.string()))
	}
	slices.SortFunc(reports, func(a, b BridgeReport) int { return strings.Compare(a.ID, b.ID) })
	return reports, r.err
}

// readReport reads what lua/attend.lua has written. What another release has written in
// another way is as good as nothing.
func readReport(id, text string) BridgeReport {
	instant, text, _ := strings.Cut(text, " ")
	ms, err := strconv.ParseInt(instant, 10, 64)
	var w written
	if err != nil || json.Unmarshal([]byte(text), &w) != nil {
		return BridgeReport{ID: id}
	}
	at := time.UnixMilli(ms).UTC()
	w.ID, w.At, w.Started = id, at, at.Add(-time.Duration(w.UpMS)*time.Millisecond)
	return w.BridgeReport
}

// written is a report as Redis keeps it: the bridge does not say what time it is.
type written struct {
	BridgeReport
	UpMS int64 `json:"up_ms"`
}
