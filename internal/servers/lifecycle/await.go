package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// StartTimeout bounds the wait for a server to answer. RabbitMQ takes 5 to 12 s
// on two quiet cores, and a cluster of it 15 to 30 s.
const StartTimeout = 5 * time.Minute

// ProbeTimeout bounds one question to a starting server.
const ProbeTimeout = 5 * time.Second

// probeInterval is how often a server is asked whether it has got there.
const probeInterval = 100 * time.Millisecond

// hopeless is an answer after which asking again is of no use.
type hopeless struct{ error }

// Hopeless is the error of a probe that [Await] does not repeat.
func Hopeless(err error) error { return hopeless{err} }

// Await asks until the answer is nil or [Hopeless], or [StartTimeout] is over.
func Await(ctx context.Context, probe func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		err := probe(ctx)
		if err == nil || errors.As(err, new(hopeless)) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited in vain: %w (%w)", err, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// Dialer returns a dialer for probes, whose connections live no longer than [ProbeTimeout].
func Dialer(ctx context.Context) func(network, address string) (net.Conn, error) {
	return func(network, address string) (net.Conn, error) {
		dialer := net.Dialer{Timeout: ProbeTimeout}
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return conn, conn.SetDeadline(time.Now().Add(ProbeTimeout))
	}
}
