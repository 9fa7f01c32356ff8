package redisbridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/topology"
)

// lostFor is for how long a loss is reported.
const lostFor = 24 * time.Hour

// A Loss is what a bridge has noted down when it saw that its data in Redis had vanished.
type Loss struct {
	// At is when the bridge saw it, by the bridge's clock.
	At time.Time `json:"at"`
	// Bridge is the ID of the one that saw it, and What is what had vanished.
	Bridge string `json:"bridge"`
	What   string `json:"what"`
}

// String says when, what, and who has seen it.
func (l Loss) String() string {
	return fmt.Sprintf("seen at %s: %s (bridge %s)", l.At.UTC().Format(time.RFC3339), l.What, l.Bridge)
}

// Loss returns what was lost in Redis within the last day, and false where no bridge has
// seen such a thing. It costs one command.
func (p *Park) Loss(ctx context.Context) (Loss, bool, error) {
	l, known, err := lossOf(ctx, p.config.Client, p.config.Topology)
	if err != nil {
		err = fmt.Errorf("ask for losses: %w", classify(err))
	}
	return l, known, err
}

func lossOf(ctx context.Context, client redis.UniversalClient, t *topology.Topology) (Loss, bool, error) {
	text, err := client.Get(ctx, lostKey(t)).Result()
	if errors.Is(err, redis.Nil) {
		return Loss{}, false, nil
	}
	if err != nil {
		return Loss{}, false, err
	}
	var l Loss
	if json.Unmarshal([]byte(text), &l) != nil {
		l.What = text // of another release
	}
	return l, true, nil
}

// lost notes down in Redis, for all who look, that what this bridge had there is gone, and
// puts the layout back. The first of several notes stays.
func (b *Bridge) lost(ctx context.Context, what string) {
	l := Loss{At: time.Now().UTC().Truncate(time.Millisecond), Bridge: b.id, What: what}
	b.conditions.begin(ConditionRedisLost, l.String())
	text, err := json.Marshal(l)
	if err != nil {
		return
	}
	err = b.config.Client.SetNX(ctx, lostKey(b.config.Topology), text, lostFor).Err()
	if layout := checkLayout(ctx, b.config.Client, b.config.Topology, Owner{}); err == nil {
		err = layout
	}
	if err != nil {
		b.log.Warn("cannot note down in Redis what it has lost", "error", err)
	}
}

// sawLoss takes what Redis says of losses: another bridge may have seen one.
func (b *Bridge) sawLoss(text string) {
	if text == "" {
		b.conditions.end(ConditionRedisLost)
		return
	}
	var l Loss
	if json.Unmarshal([]byte(text), &l) != nil {
		l.What = text
	}
	b.conditions.begin(ConditionRedisLost, l.String())
}
