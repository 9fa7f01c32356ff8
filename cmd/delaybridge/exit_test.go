package main

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
		"nothing":             {t.Context(), nil, exitOK},
		"finished in time":    {cancelled, nil, exitOK},
		"anything":            {t.Context(), errors.New("x"), exitFailed},
		"usage":               {t.Context(), usage(errors.New("x")), exitUsage},
		"drift":               {t.Context(), withCode(exitDrift, errors.New("x")), exitDrift},
		"interrupted":         {cancelled, context.Canceled, exitInterrupted},
		"cancelled elsewhere": {t.Context(), context.Canceled, exitFailed},
		"failed meanwhile":    {cancelled, errors.New("x"), exitFailed},
		"RabbitMQ down":       {t.Context(), broker.ErrUnreachable, exitUnreachable},
		"Redis down":          {t.Context(), redisbridge.ErrUnreachable, exitUnreachable},
		"management down":     {t.Context(), topology.ErrUnreachable, exitUnreachable},
		"wrong AMQP URL":      {t.Context(), broker.ErrConfiguration, exitUsage},
		"wrong Redis URL":     {t.Context(), redisbridge.ErrConfiguration, exitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.err
			if err != nil {
				err = fmt.Errorf("wrapped: %w", err)
			}
			if got := exitCode(c.ctx, err); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}
