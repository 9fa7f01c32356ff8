package metrics

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/internal/meters"
	"github.com/delaybridge/delaybridge/redisbridge/internal/store"
)

// CountCalls has registerer have metrics of client's calls of Redis: how long they take,
// which fail, and how often it connects. [NewBridge] does so by itself; call it once for
// a client.
func CountCalls(registerer prometheus.Registerer, prefix string, client redis.UniversalClient) error {
	set := meters.NewSet(registerer, prefix)
	h := &calls{
		took: set.Histogram("redis_call_duration_seconds",
			"How long Redis took to answer, by what it was asked: the name of a script (redisbridge/lua), pipeline, or other.",
			meters.CallSeconds(), "call"),
		failures: set.Counter("redis_call_failures_total", "Calls of Redis that failed.", "call"),
		connects: set.Counter("redis_connects_total", "Connections to Redis that were tried, by outcome.", "outcome"),
		scripts:  store.ScriptNames(),
	}
	if err := set.Err(); err != nil {
		return err
	}
	client.AddHook(h)
	return nil
}

// calls is a hook of the client library.
type calls struct {
	took               *prometheus.HistogramVec
	failures, connects *prometheus.CounterVec
	scripts            map[string]string // names, by hash
}

// DialHook implements [redis.Hook].
func (h *calls) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		outcome := "connected"
		if err != nil {
			outcome = "failed"
		}
		h.connects.WithLabelValues(outcome).Inc()
		return conn, err
	}
}

// ProcessHook implements [redis.Hook].
func (h *calls) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		began := time.Now()
		err := next(ctx, cmd)
		if !greets(cmd) {
			h.note(h.nameOf(cmd), began, err)
		}
		return err
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (h *calls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		began := time.Now()
		err := next(ctx, cmds)
		if !slices.ContainsFunc(cmds, greets) {
			h.note("pipeline", began, err)
		}
		return err
	}
}

// greets reports whether the library sends cmd by itself, on a new connection. Older
// servers do not know all of these, which it bears with.
func greets(cmd redis.Cmder) bool {
	switch cmd.Name() {
	case "hello", "client", "auth", "select", "readonly":
		return true
	}
	return false
}

func (h *calls) note(call string, began time.Time, err error) {
	h.took.WithLabelValues(call).Observe(time.Since(began).Seconds())
	// That there is nothing, or that a script has to be loaded first, is no failure.
	if err != nil && !errors.Is(err, redis.Nil) && !strings.HasPrefix(err.Error(), "NOSCRIPT ") {
		h.failures.WithLabelValues(call).Inc()
	}
}

func (h *calls) nameOf(cmd redis.Cmder) string {
	if args := cmd.Args(); len(args) > 1 {
		if hash, ok := args[1].(string); ok && strings.HasPrefix(cmd.Name(), "evalsha") { // or evalsha_ro
			if name, ours := h.scripts[hash]; ours {
				return name
			}
		}
	}
	return "other"
}
