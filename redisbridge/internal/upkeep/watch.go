package upkeep

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/health"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store/server"
	"github.com/delaybridge/delaybridge/topology"
)

// Watch looks at what nothing else tells of.
type Watch struct {
	Client     redis.UniversalClient
	Topology   *topology.Topology
	Management *topology.Management // nil where policies are not looked at
	Conditions *health.Conditions
	Logger     *slog.Logger

	settingsUnseen, policiesUnseen bool // it was said that they cannot be seen
}

// Run looks at the start, and then at each interval, until ctx ends.
func (w *Watch) Run(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for ctx.Err() == nil {
		w.settings(ctx)
		w.policies(ctx)
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// settings looks at what the servers' settings do not guarantee. A server that is away says
// nothing of them.
func (w *Watch) settings(ctx context.Context) {
	settings, err := server.Settings(ctx, w.Client)
	if err != nil {
		if ctx.Err() == nil && !w.settingsUnseen {
			w.settingsUnseen = true
			w.Logger.Warn("cannot see how Redis keeps data; see docs/operations.md", "error", err)
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
		w.Conditions.Begin(health.RedisSettings, strings.Join(unsafe, "; "))
	} else {
		w.Conditions.End(health.RedisSettings)
	}
}

// policies looks at what policies make of the queues' arguments.
func (w *Watch) policies(ctx context.Context) {
	if w.Management == nil {
		return
	}
	limited, cancel := context.WithTimeout(ctx, policiesWithin)
	defer cancel()
	drifts, err := w.Topology.Overrides(limited, w.Management)
	if err != nil {
		if ctx.Err() == nil && !w.policiesUnseen {
			w.policiesUnseen = true
			w.Logger.Info("cannot see whether policies override the queues' arguments", "error", err)
		}
		return
	}
	w.policiesUnseen = false
	if len(drifts) > 0 {
		w.Conditions.Begin(health.Policy, w.Topology.Overridden(drifts))
	} else {
		w.Conditions.End(health.Policy)
	}
}

// policiesWithin bounds a look at the management API.
const policiesWithin = 10 * time.Second
