package ledger

import (
	"context"
	"log/slog"
	"time"
)

// Forgetter is a ledger whose marks stay until they are forgotten.
type Forgetter interface {
	// Forget drops the marks of effects that happened before an instant, and returns
	// how many those were, also beside an error. A message whose mark is forgotten
	// has its effect again, should it come again.
	Forget(ctx context.Context, before time.Time) (int64, error)
}

// Sweep forgets marks older than keep, at once and then every so often, until ctx
// ends. Any number of processes may do so. What goes wrong is logged, and tried
// again the next time; a nil logger is slog.Default().
func Sweep(ctx context.Context, l Forgetter, keep, every time.Duration, log *slog.Logger) {
	if log == nil {
		log = slog.Default()
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for ctx.Err() == nil {
		switch n, err := l.Forget(ctx, time.Now().Add(-keep)); {
		case err != nil && ctx.Err() == nil:
			log.Warn("cannot forget old marks of the ledger", "error", err, "forgotten", n, "retry_in", every)
		case n > 0:
			log.Info("forgot old marks of the ledger", "forgotten", n)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}
