package cli

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/delaybridge/delaybridge/internal/broker"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

func TestExitCode(t *testing.T) {
	t.Parallel()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want int
	}{
		"nothing":             {t.Context(), nil, ExitOK},
		"finished in time":    {cancelled, nil, ExitOK},
		"anything":            {t.Context(), errors.New("x"), ExitFailed},
		"usage":               {t.Context(), Usage(errors.New("x")), ExitUsage},
		"drift":               {t.Context(), WithCode(ExitDrift, errors.New("x")), ExitDrift},
		"interrupted":         {cancelled, context.Canceled, ExitInterrupted},
		"cancelled elsewhere": {t.Context(), context.Canceled, ExitFailed},
		"failed meanwhile":    {cancelled, errors.New("x"), ExitFailed},
		"RabbitMQ down":       {t.Context(), broker.ErrUnreachable, ExitUnreachable},
		"Redis down":          {t.Context(), redisbridge.ErrUnreachable, ExitUnreachable},
		"management down":     {t.Context(), topology.ErrUnreachable, ExitUnreachable},
		"wrong AMQP URL":      {t.Context(), broker.ErrConfiguration, ExitUsage},
		"wrong Redis URL":     {t.Context(), redisbridge.ErrConfiguration, ExitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.err
			if err != nil {
				err = fmt.Errorf("wrapped: %w", err)
			}
			if got := ExitCode(c.ctx, err); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}
