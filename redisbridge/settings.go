package redisbridge

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/topology"
)

// watchConditions looks at what nothing else tells of, at the start and every RepairEvery.
func (b *Bridge) watchConditions(ctx context.Context) error {
	ticker := time.NewTicker(b.config.RepairEvery)
	defer ticker.Stop()
	var watches conditionWatch
	for ctx.Err() == nil {
		watches.settings(ctx, b)
		watches.policies(ctx, b)
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	return nil
}

// conditionWatch says once that it cannot look.
type conditionWatch struct{ settingsUnseen, policiesUnseen bool }

// settings looks at what the servers' settings do not guarantee. A server that is away says
// nothing of them.
func (w *conditionWatch) settings(ctx context.Context, b *Bridge) {
	settings, err := Settings(ctx, b.config.Client)
	if err != nil {
		if ctx.Err() == nil && !w.settingsUnseen {
			w.settingsUnseen = true
			b.log.Warn("cannot see how Redis keeps data; see docs/operations.md", "error", err)
		}
		return
	}
	w.settingsUnseen = false
	var unsafe []string
	for _, s := range settings {
		if !s.Safe() {
			unsafe = append(unsafe, fmt.Sprintf("%s is %s, want %s: %s", s.Name, s.Found, s.Want, s.Otherwise))
		}
	}
	if len(unsafe) > 0 {
		b.conditions.begin(ConditionRedisSettings, strings.Join(unsafe, "; "))
	} else {
		b.conditions.end(ConditionRedisSettings)
	}
}

// policies looks at what policies make of the queues' arguments.
func (w *conditionWatch) policies(ctx context.Context, b *Bridge) {
	if b.config.Management == nil {
		return
	}
	limited, cancel := context.WithTimeout(ctx, policiesWithin)
	defer cancel()
	drifts, err := b.config.Topology.Overrides(limited, b.config.Management)
	if err != nil {
		if ctx.Err() == nil && !w.policiesUnseen {
			w.policiesUnseen = true
			b.log.Info("cannot see whether policies override the queues' arguments", "error", err)
		}
		return
	}
	w.policiesUnseen = false
	if len(drifts) > 0 {
		b.conditions.begin(ConditionPolicy, topology.Overridden(drifts))
	} else {
		b.conditions.end(ConditionPolicy)
	}
}

// policiesWithin bounds a look at the management API.
const policiesWithin = 10 * time.Second
