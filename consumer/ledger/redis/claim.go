package redis

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/consumer/ledger"
)

// renewals is how often a lease is renewed before it would end.
const renewals = 3

// claim is one call's hold on a key.
type claim struct {
	*Ledger
	key  string
	mine []string // the key's name in Redis
	who  string   // unique among all claims
}

// begin takes the effect, and returns false where it has happened already.
func (c *claim) begin(ctx context.Context) (bool, error) {
	answer, err := c.take.Run(ctx, c.config.Client, c.mine, done, c.who, c.config.Lease.Milliseconds()).Int64()
	switch {
	case err != nil:
		return false, fmt.Errorf("ledger: take %q: %w", c.key, err)
	case answer == happened:
		return false, nil
	case answer == taken:
		return true, nil
	}
	wait := min(time.Duration(answer)*time.Millisecond, c.config.Lease/renewals)
	return false, fmt.Errorf("ledger: take %q: %w", c.key, &ledger.BusyError{Wait: wait})
}

// hold runs effect, and renews the lease meanwhile.
func (c *claim) hold(ctx context.Context, effect func(context.Context) error) error {
	ctx, lose := context.WithCancelCause(ctx)
	var renewing sync.WaitGroup
	defer renewing.Wait()
	defer lose(nil)
	renewing.Go(func() { c.renew(ctx, lose) })
	return effect(ctx)
}

// renew renews the lease until ctx ends, and ends ctx where the lease is lost.
func (c *claim) renew(ctx context.Context, lose context.CancelCauseFunc) {
	ticker := time.NewTicker(c.config.Lease / renewals)
	defer ticker.Stop()
	for ends := time.Now().Add(c.config.Lease); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		asked := time.Now()
		trying, cancel := context.WithDeadline(ctx, ends)
		kept, err := c.keep.Run(trying, c.config.Client, c.mine, c.who, c.config.Lease.Milliseconds()).Bool()
		cancel()
		switch {
		case err == nil && kept:
			ends = asked.Add(c.config.Lease)
		case err == nil || time.Now().After(ends):
			lose(errLost)
			return
		}
	}
}

// mark notes that the effect has happened, also where the lease was lost.
func (c *claim) mark(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.config.Lease)
	defer cancel()
	if err := c.config.Client.Set(ctx, c.mine[0], done, c.config.Keep).Err(); err != nil {
		return fmt.Errorf("ledger: the effect of %q has happened, and cannot be marked: %w", c.key, err)
	}
	return nil
}

// abandon leaves the effect to the next attempt. If that fails, the lease ends by
// itself.
func (c *claim) abandon(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Lease)
	defer cancel()
	_ = c.leave.Run(ctx, c.config.Client, c.mine, c.who).Err()
}
